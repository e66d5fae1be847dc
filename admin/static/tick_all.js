// The box above a column of boxes ticks them all; what is ticked is counted.
"use strict";
(() => {
  for (const all of document.querySelectorAll("[data-tick-all]")) {
    const boxes = [...document.querySelectorAll(`input[type=checkbox][name="${CSS.escape(all.dataset.tickAll)}"]`)];
    const count = document.getElementById(all.dataset.counts || "");
    const told = () => {
      const ticked = boxes.filter((box) => box.checked).length;
      all.checked = ticked === boxes.length && ticked > 0;
      all.indeterminate = ticked > 0 && ticked < boxes.length;
      if (count) count.textContent = `${ticked} ticked`;
    };
    all.closest("label").hidden = false;
    all.addEventListener("change", () => { boxes.forEach((box) => { box.checked = all.checked; }); told(); });
    boxes.forEach((box) => box.addEventListener("change", told));
    told();
  }
})();
