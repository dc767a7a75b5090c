// Figures refer to colours of the style sheet by name, so they are drawn again whenever the colours change.
function coloured(value, style) {
  if (typeof value === "string" && value.startsWith("var(")) return style.getPropertyValue(value.slice(4, -1)).trim();
  if (Array.isArray(value)) return value.map((item) => coloured(item, style));
  if (value && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, coloured(item, style)]));
  return value;
}

function draw(width) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim();
  const muted = style.getPropertyValue("--muted").trim();
  const line = style.getPropertyValue("--line").trim();
  const paper = style.getPropertyValue("--paper").trim();
  const font = getComputedStyle(document.body).fontFamily;
  for (const [name, figure] of Object.entries(figures)) {
    const { data, layout } = coloured(figure, style);
    for (const axis of ["xaxis", "yaxis"]) {
      layout[axis] = { gridcolor: line, linecolor: line, tickcolor: line, fixedrange: true, ...layout[axis] };
      layout[axis].tickfont = { color: muted, ...layout[axis].tickfont };
      layout[axis].title = { ...layout[axis].title, font: { size: 12, color: muted } };
    }
    Plotly.react(name, data, {
      ...layout,
      ...(width ? { width, autosize: false } : { width: undefined, autosize: true }),
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: font, size: 12, color: ink },
      hoverlabel: { bgcolor: paper, bordercolor: muted, font: { family: font, size: 13, color: ink } },
    }, { responsive: true, displayModeBar: false });
  }
}

draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());

// Printing does not lay a plot out again, so plots are first drawn in ink, at a width that fits both A4 and Letter.
const PAPER_WIDTH = 660;
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printing");
  for (const part of document.querySelectorAll("details:not([open])")) {
    part.open = true;
    part.dataset.folded = "";
  }
  draw(PAPER_WIDTH);
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printing");
  for (const part of document.querySelectorAll("details[data-folded]")) {
    part.open = false;
    delete part.dataset.folded;
  }
  draw();
});
