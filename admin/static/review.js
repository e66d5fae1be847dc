// Labels requests of the review list by one key. Only while the list has the focus: elsewhere a key means nothing.
"use strict";
(() => {
  const list = document.querySelector("[data-review]");
  if (!list) return;
  const items = [...list.querySelectorAll(".review-item")];
  const marked = () => items.find((item) => item.contains(document.activeElement));
  let sent = false;

  function mark(item) {
    if (!item) return;
    for (const each of items) each.tabIndex = each === item ? 0 : -1;
    item.focus();
  }
  list.addEventListener("keydown", (event) => {
    const item = marked();
    if (!item || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input, textarea")) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      mark(items[items.indexOf(item) + step]);
      return;
    }
    const button = item.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!button) return;
    event.preventDefault();
    button.click();
    // What opens a field is pressed to write there.
    if (button.tagName === "SUMMARY") button.parentElement.querySelector("textarea")?.focus();
  });
  // A second key, before the next page is there, would label the same request again.
  list.addEventListener("submit", (event) => {
    if (sent) event.preventDefault();
    sent = true;
  });
  for (const item of items) item.addEventListener("click", (event) => { if (!event.target.closest("a, button, select")) mark(item); });
  const begin = () => { if (location.hash === "#review") mark(items[0]); };
  window.addEventListener("hashchange", begin);
  // Not before: the browser goes to the section by itself, and takes the focus along.
  window.addEventListener("load", () => requestAnimationFrame(begin));
})();
