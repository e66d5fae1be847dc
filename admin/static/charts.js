// Draws every [data-chart] with plotly, in the page's own colours: a chart names a series by number, the theme says its colour.
"use strict";
(() => {
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colour = (name) => (/^(series-\d|good|warn|bad|muted|line|accent)$/.test(name || "") ? style("--" + name) : name);

  // Instants are sent as milliseconds since 1970; plotly would show them in UTC. Offsets change at quarters of hours only.
  const QUARTER_MS = 900000, offsets = new Map();
  const clock = new Intl.DateTimeFormat("en-u-hc-h23", { timeZone: document.body.dataset.zone || "UTC", year: "numeric", month: "numeric",
    day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" });
  function offset(ms) {
    const quarter = Math.floor(ms / QUARTER_MS);
    if (!offsets.has(quarter)) {
      const of = Object.fromEntries(clock.formatToParts(quarter * QUARTER_MS).map((part) => [part.type, Number(part.value)]));
      offsets.set(quarter, Date.UTC(of.year, of.month - 1, of.day, of.hour, of.minute, of.second) - quarter * QUARTER_MS);
    }
    return offsets.get(quarter);
  }
  const local = (ms) => ms + offset(ms);

  function themed(trace, layout) {
    const copy = { ...trace };
    for (const key of ["x", "y"]) {
      if (layout?.[key + "axis"]?.type === "date" && Array.isArray(copy[key])) copy[key] = copy[key].map(local);
    }
    for (const key of ["marker", "line", "error_y"]) {
      if (copy[key]) copy[key] = { ...copy[key], color: colour(copy[key].color) };
    }
    if (Array.isArray(copy.marker?.colorscale)) {
      copy.marker.colorscale = copy.marker.colorscale.map(([at, name]) => [at, colour(name)]);
    }
    if (copy.fillcolor) copy.fillcolor = colour(copy.fillcolor);
    return copy;
  }
  function axis(given, text, line) {
    return { gridcolor: line, zerolinecolor: line, linecolor: line, tickcolor: line, tickfont: { color: text },
      automargin: true, ...given };
  }
  function layout(given) {
    const text = style("--muted"), line = style("--line");
    const made = {
      margin: { l: 8, r: 8, t: 8, b: 8 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: style("--font"), size: 12, color: style("--text") }, hovermode: "closest",
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, traceorder: "normal", font: { color: text } },
      hoverlabel: { bgcolor: style("--surface"), bordercolor: line, font: { color: style("--text") } },
      ...given,
    };
    // A range of instants is moved into the pages' zone as the instants themselves are.
    for (const key of ["xaxis", "yaxis"]) {
      if (made[key]?.type === "date" && made[key].range) made[key] = { ...made[key], range: made[key].range.map(local) };
    }
    for (const key of Object.keys(made)) if (/^[xy]axis\d*$/.test(key)) made[key] = axis(made[key], text, line);
    made.xaxis ??= axis({}, text, line);
    made.yaxis ??= axis({}, text, line);
    return made;
  }
  function draw(within) {
    const charts = [...within.querySelectorAll("[data-chart]")];
    if (within.matches?.("[data-chart]")) charts.push(within);
    for (const box of charts) {
      const { traces, layout: given } = JSON.parse(box.dataset.chart);
      Plotly.react(box, traces.map((trace) => themed(trace, given)), layout(given || {}), { displayModeBar: false, responsive: true });
      const links = box.closest("[data-href]");
      if (links && !box.dataset.linked) {
        box.dataset.linked = "yes";
        box.on("plotly_click", (event) => { location.href = links.dataset.href + event.points[0].customdata; });
      }
    }
  }
  document.addEventListener("understudy:theme", () => draw(document));
  document.addEventListener("understudy:news", (event) => draw(event.detail));
  draw(document);
})();
