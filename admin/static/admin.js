// What every page does: theme, live updates, questions before what cannot be undone, times in local words.
"use strict";
(() => {
  const root = document.documentElement;
  const dark = () => root.dataset.theme === "dark"
    || (root.dataset.theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);

  function themeChanged() {
    document.dispatchEvent(new Event("understudy:theme"));
  }
  document.getElementById("theme")?.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("understudy-theme", root.dataset.theme); } catch (_) { /* not kept, then */ }
    themeChanged();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);

  // Both kinds of time: when it was, in the reader's zone, and how long ago that is.
  const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
  const thisYear = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", ...clock });
  const before = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", ...clock });
  const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "always", style: "long" });
  const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  function ago(at) {
    const seconds = (at - Date.now()) / 1000;
    const [unit, length] = UNITS.find(([, each]) => Math.abs(seconds) >= each) || ["second", 1];
    return relative.format(Math.trunc(seconds / length), unit);
  }
  function localTimes(within) {
    const now = new Date();
    for (const time of within.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      const said = (at.getFullYear() === now.getFullYear() ? thisYear : before).format(at);
      time.title = `${ago(at)} (${time.dateTime})`;
      // Where one thing is told of there is room for both; in a list the pointer tells.
      time.textContent = time.closest("dl.facts, .flash, .computing, p, li") ? `${said}, ${ago(at)}` : said;
    }
  }
  setInterval(() => { if (!document.hidden) localTimes(document); }, 30000);

  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });
  document.addEventListener("change", (event) => {
    if (event.target.closest("form[data-auto]")) event.target.form.requestSubmit();
  });
  document.addEventListener("click", (event) => {
    const copier = event.target.closest("[data-copy]");
    if (!copier) return;
    navigator.clipboard?.writeText(document.getElementById(copier.dataset.copy).textContent.trim())
      .then(() => {
        // News may have put another button in its place.
        const there = document.querySelector(`[data-copy="${CSS.escape(copier.dataset.copy)}"]`);
        if (!there) return;
        there.dataset.says ??= there.textContent;
        there.textContent = "Copied";
        setTimeout(() => { there.textContent = there.dataset.says; }, 2000);
      });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const search = document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); }
  });

  // ---- live: the page is asked for again, and every part marked data-news takes the place of the old one
  const state = document.getElementById("live-state");
  const PAUSE_MS = 2000;
  let waiting = false, asking = false, last = 0;

  function parts(of) { return of.querySelectorAll("[data-news][id]"); }
  function busy(part) { return part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select"); }

  async function refresh() {
    if (asking || document.hidden) { waiting = true; return; }
    asking = true; waiting = false;
    try {
      const answer = await fetch(location.href, { headers: { "X-Live": "1", "Accept": "text/html" } });
      if (answer.status === 401) { location.reload(); return; }
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of parts(document)) {
        const other = fresh.getElementById(part.id);
        // Both as of now: otherwise a part differs in how long ago something was, and in nothing else.
        for (const each of other ? [part, other] : []) localTimes(each);
        if (!other || busy(part) || part.innerHTML === other.innerHTML) continue;
        // A list that stands still just now keeps it for later (live_list.js).
        if (!document.dispatchEvent(new CustomEvent("understudy:fresh", { cancelable: true, detail: { part, other } }))) continue;
        const open = new Set([...part.querySelectorAll("details[open][id]")].map((d) => d.id));
        const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
        keepCharts(part, other);
        part.replaceWith(document.adoptNode(other));
        for (const id of open) document.getElementById(id)?.setAttribute("open", "");
        if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
        localTimes(other);
        document.dispatchEvent(new CustomEvent("understudy:news", { detail: other }));
      }
    } catch (_) { /* the stream of events says when there is something to ask again */
    } finally {
      asking = false; last = Date.now();
      // News that came while it was asking: the next answer has it.
      if (waiting && !document.hidden) { waiting = false; soon(); }
    }
  }
  // A chart that is there already is given new figures, not drawn anew.
  function keepCharts(part, other) {
    for (const fresh of other.querySelectorAll("[data-chart]")) {
      const old = part.querySelector("#" + CSS.escape(fresh.id));
      if (!old || !old.firstChild) continue;
      old.dataset.chart = fresh.dataset.chart;
      old.setAttribute("aria-label", fresh.getAttribute("aria-label") || "");
      fresh.replaceWith(old);
    }
  }
  function soon() {
    if (waiting) return;
    waiting = true;
    setTimeout(() => { if (waiting) refresh(); }, Math.max(0, last + PAUSE_MS - Date.now()));
  }
  if (document.body.dataset.live && parts(document).length) {
    const source = new EventSource(document.body.dataset.live);
    let missed = false;
    source.addEventListener("open", () => {
      state.hidden = false; state.textContent = "live"; state.className = "live-state on";
      // What was computed before anybody listened is told to nobody.
      if (missed || document.querySelector("[data-unfinished]")) soon();
      missed = false;
    });
    source.addEventListener("error", () => { state.hidden = false; state.textContent = "offline"; state.className = "live-state"; missed = true; });
    source.addEventListener("news", soon);
    source.addEventListener("over", () => { source.close(); location.reload(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden && waiting) { waiting = false; soon(); } });
  }
  localTimes(document);
})();
