// Returns the visible texts whose contrast with their background is below WCAG AA, each as "ratio text".
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((value) => value / 255).map((s) => (s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = (node) => {
    for (let ancestor = node; ancestor; ancestor = ancestor.parentElement) {
      const color = rgba(getComputedStyle(ancestor).backgroundColor);
      if (color[3] === 255) return color.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const poor = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const { parentElement: node, nodeValue } = texts.currentNode;
    if (!nodeValue.trim() || !node.checkVisibility() || node.closest("noscript")) continue;
    const style = getComputedStyle(node);
    const luminances = [luminance(rgba(style.color).slice(0, 3)), luminance(background(node))];
    const ratio = (Math.max(...luminances) + 0.05) / (Math.min(...luminances) + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) poor.push(`${ratio.toFixed(2)} ${nodeValue.trim()}`);
  }
  return poor;
}
