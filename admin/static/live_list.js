// A live list that stands still while somebody aims at it: what is new is counted, and shown by the button that says so.
"use strict";
(() => {
  const around = document.querySelector("[data-stands-still]");
  const bar = document.getElementById("live-bar");
  if (!around || !bar) return;
  const pause = bar.querySelector("[data-pause]"), show = bar.querySelector("[data-show-new]"), why = bar.querySelector("[data-why]");
  // A pointer that moves may be on its way to a row.
  const AIMING_MS = 1500, TOUCHED_MS = 4000;
  let paused = false, over = false, until = 0, kept = null;

  function reason() {
    if (paused) return "Paused";
    if (over) return "Paused while the pointer is over the list";
    if (around.contains(document.activeElement)) return "Paused while the list has the focus";
    const selected = getSelection();
    if (selected && !selected.isCollapsed && around.contains(selected.anchorNode)) return "Paused while text is selected";
    if (around.getBoundingClientRect().top < 0) return "Paused while scrolled down";
    if (performance.now() < until) return "Paused while the pointer moves";
    return "";
  }
  function ids(part) { return [...part.querySelectorAll("[data-row]")].map((row) => row.dataset.row); }
  function tell() {
    const said = reason();
    why.textContent = said || "Live";
    pause.textContent = paused ? "Resume" : "Pause";
    pause.setAttribute("aria-pressed", String(paused));
    const there = new Set(ids(around));
    const fresh = kept ? ids(kept) : [];
    const count = fresh.filter((id) => !there.has(id)).length;
    // Where nothing of the old page is left on the new one, more may have come than a page holds.
    show.textContent = `${count}${count && count === fresh.length ? "+" : ""} new`;
    show.classList.toggle("hidden", !count);
    show.disabled = !count;
  }
  function take() {
    const part = kept && document.getElementById(kept.id);
    if (part) {
      const fresh = document.adoptNode(kept);
      part.replaceWith(fresh);
      document.dispatchEvent(new CustomEvent("understudy:news", { detail: fresh }));
    }
    kept = null;
    tell();
  }
  function look() {
    if (kept && !reason()) take(); else tell();
  }
  document.addEventListener("understudy:fresh", (event) => {
    if (!around.contains(event.detail.part)) return;
    kept = event.detail.other;
    event.preventDefault();
    look();
  });
  around.addEventListener("pointerenter", (event) => { over = event.pointerType === "mouse" || event.pointerType === "pen"; tell(); });
  around.addEventListener("pointerleave", () => { over = false; tell(); });
  addEventListener("pointermove", () => { until = Math.max(until, performance.now() + AIMING_MS); }, { passive: true });
  around.addEventListener("pointerdown", (event) => { if (event.pointerType === "touch") until = performance.now() + TOUCHED_MS; });
  pause.addEventListener("click", () => { paused = !paused; until = 0; look(); });
  show.addEventListener("click", () => { take(); scrollTo({ top: 0 }); pause.focus(); });
  // Whatever held it has ended, or not yet.
  setInterval(look, 500);
  bar.hidden = false;
  tell();
})();
