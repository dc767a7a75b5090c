// The texts of a page that stand out from what is behind them by less than 4.5 to 1, as WCAG 2 reckons it.
(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const mixed = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const one of colours) {
      canvas.fillStyle = one;
      canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (colour) => {
    const [red, green, blue] = colour
      .map((value) => value / 255)
      .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (node) => (node ? [...behind(node.parentElement), getComputedStyle(node).backgroundColor] : []);
  const hasText = (node) =>
    [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.textContent.trim());
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    if (
      !hasText(node) ||
      !node.checkVisibility({ visibilityProperty: true }) ||
      node.disabled ||
      node.closest(".skip, .visually-hidden")
    )
      continue;
    const back = behind(node);
    const [lower, upper] = [mixed(back), mixed([...back, getComputedStyle(node).color])]
      .map(luminance)
      .sort((a, b) => a - b);
    const ratio = (upper + 0.05) / (lower + 0.05);
    if (ratio < 4.5)
      poor.push(`${ratio.toFixed(2)} ${node.tagName}.${node.className} ${node.textContent.slice(0, 30)}`);
  }
  return [...new Set(poor)].slice(0, 8);
})();
