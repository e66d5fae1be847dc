// What every page does: theme, live updates, questions before what cannot be undone, how long ago a time was.
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

  // The server writes times in the pages' one zone; how long ago that is changes while one looks.
  const relative = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "long" });
  const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  function ago(at) {
    const seconds = (at - Date.now()) / 1000;
    const [unit, length] = UNITS.find(([, each]) => Math.abs(seconds) >= each) || ["second", 1];
    return relative.format(Math.trunc(seconds / length), unit);
  }
  function agoTimes(within) {
    for (const time of within.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (isNaN(at)) continue;
      time.dataset.said ??= time.textContent;
      time.title = ago(at);
      // Where one thing is told of there is room for both; in a list the pointer tells.
      if (time.closest("dl.facts, .flash, .computing, p, li")) time.textContent = `${time.dataset.said}, ${ago(at)}`;
    }
  }
  setInterval(() => { if (!document.hidden) agoTimes(document); }, 30000);

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
    // The page's own comes before the one in its head.
    const search = document.querySelector("main input[type=search]") ?? document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); }
  });

  // ---- on a phone a row of a table with figures is a card, so that none is cut; the head's words stand beside each figure
  const CARDS = "table:not(.stacks, .matrix)";
  function cards(within) {
    for (const table of within.querySelectorAll(CARDS)) {
      const heads = [...table.querySelectorAll("thead th")].map((one) => one.textContent.trim());
      if (heads.length < 3) continue;
      table.classList.add("cards-on-phone");
      // The roles would go with the boxes of a table.
      table.setAttribute("role", "table");
      for (const group of table.querySelectorAll("thead, tbody")) group.setAttribute("role", "rowgroup");
      for (const row of table.rows) {
        row.setAttribute("role", "row");
        for (const cell of row.cells) {
          cell.setAttribute("role", cell.closest("thead") ? "columnheader" : cell.matches("th") ? "rowheader" : "cell");
          if (!cell.closest("thead") && cell.cellIndex > 0 && row.cells.length === heads.length) cell.dataset.label = heads[cell.cellIndex];
        }
      }
    }
  }
  cards(document);

  // ---- a form half-written when the session ends comes back after signing in again, for the same account and in the same tab
  const DRAFT = "understudy-draft", who = document.body.dataset.who;
  // Where this page is, also when it is the answer to a form.
  const here = () => (document.body.dataset.here || location.pathname + location.search);
  function changed(control) {
    if (control.type === "hidden" || control.type === "password") return false;
    if (control.matches("[type=checkbox], [type=radio]")) return control.checked !== control.defaultChecked;
    if (control.matches("select")) return [...control.options].some((one) => one.selected !== one.defaultSelected) && control.selectedIndex > 0;
    return control.value !== control.defaultValue;
  }
  const place = (control) => [control.form?.getAttribute("action"), control.name, [...document.querySelectorAll(`[name="${CSS.escape(control.name)}"]`)].indexOf(control)].join(" ");
  function over() {
    const drafts = [...document.querySelectorAll("form[method=post] [name]")].filter((one) => one.matches("input, textarea, select") && changed(one))
      .map((one) => [place(one), one.matches("[type=checkbox], [type=radio]") ? one.checked : one.value]);
    try { if (drafts.length) sessionStorage.setItem(DRAFT, JSON.stringify({ who, here: here(), drafts })); } catch (_) { /* not kept, then */ }
    location.assign(here());
  }
  function restore() {
    let kept = null;
    try { kept = JSON.parse(sessionStorage.getItem(DRAFT) || "null"); } catch (_) { return; }
    if (!kept || !who) return;
    if (kept.who === who && kept.here !== here()) return;
    sessionStorage.removeItem(DRAFT);
    if (kept.who !== who) return;
    const values = new Map(kept.drafts);
    for (const one of document.querySelectorAll("form[method=post] [name]")) {
      if (!values.has(place(one))) continue;
      const value = values.get(place(one));
      if (typeof value === "boolean") one.checked = value; else one.value = value;
      one.closest("details")?.setAttribute("open", "");
    }
  }
  restore();

  // ---- live: the page is asked for again, and every part marked data-news takes the place of the old one
  const state = document.getElementById("live-state");
  const PAUSE_MS = 2000;
  let waiting = false, asking = false, last = 0;

  function parts(of) { return of.querySelectorAll("[data-news][id]"); }
  // What somebody types into, or has changed and not sent, stays as it is.
  function busy(part) {
    return (part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select"))
      || [...part.querySelectorAll("input, textarea, select")].some(changed);
  }

  async function refresh() {
    if (asking || document.hidden) { waiting = true; return; }
    asking = true; waiting = false;
    try {
      const answer = await fetch(here(), { headers: { "X-Live": "1", "Accept": "text/html" } });
      if (answer.status === 401) { over(); return; }
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of parts(document)) {
        const other = fresh.getElementById(part.id);
        // Both as of now: otherwise a part differs in how long ago something was, and in nothing else.
        for (const each of other ? [part, other] : []) agoTimes(each);
        if (other) cards(other);
        if (!other || busy(part) || part.innerHTML === other.innerHTML) continue;
        // A list that stands still just now keeps it for later (live_list.js).
        if (!document.dispatchEvent(new CustomEvent("understudy:fresh", { cancelable: true, detail: { part, other } }))) continue;
        const open = new Set([...part.querySelectorAll("details[open][id]")].map((d) => d.id));
        const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
        keepCharts(part, other);
        part.replaceWith(document.adoptNode(other));
        for (const id of open) document.getElementById(id)?.setAttribute("open", "");
        if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
        agoTimes(other);
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
    source.addEventListener("over", () => { source.close(); over(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden && waiting) { waiting = false; soon(); } });
  }
  agoTimes(document);
})();
