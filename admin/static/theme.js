// Before anything is painted: the theme this person chose last; without a choice, the system's.
"use strict";
(() => {
  try {
    const chosen = localStorage.getItem("understudy-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch (_) { /* storage may be forbidden: the system's theme it is */ }
})();
