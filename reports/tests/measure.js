// Measures a page as a reader sees it; the result is the JSON that `reports/tests/browser.py` reads.
(() => {
  const most = 12;
  for (const details of document.querySelectorAll("details")) details.open = true;
  const found = { overflow: [], small: [], pale: [], split: [], charts: [], texts: 0 };
  const told = (element, words) => {
    const names = element.getAttribute("class") || "";
    return `${element.tagName.toLowerCase()}${names ? "." + names.trim().split(/\s+/).join(".") : ""}: ${words}`;
  };
  const keep = (list, line) => { if (list.length < most) list.push(line); };

  const parts = (text) => {
    const numbers = (text.match(/[\d.]+(e-?\d+)?/g) || []).map(Number);
    return numbers.length < 3 ? [0, 0, 0, 0] : [numbers[0], numbers[1], numbers[2], numbers.length > 3 ? numbers[3] : 1];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const luminance = (color) => {
    const [r, g, b] = color.slice(0, 3).map((c) => {
      const s = c / 255;
      return s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, two) => {
    const [high, low] = [luminance(one), luminance(two)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const dim = (element) => {
    let factor = 1;
    for (let at = element; at; at = at.parentElement) factor *= Number(getComputedStyle(at).opacity);
    return factor;
  };
  const backdrop = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parts(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  // Of text in a chart: the filled boxes that were drawn before it and lie under its middle.
  const behind = (text, svg, box) => {
    const middle = [box.left + box.width / 2, box.top + box.height / 2];
    let color = backdrop(svg);
    for (const shape of svg.querySelectorAll("rect")) {
      if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
      const style = getComputedStyle(shape);
      const at = shape.getBoundingClientRect();
      if (at.left > middle[0] || at.right < middle[0] || at.top > middle[1] || at.bottom < middle[1]) continue;
      if (style.fill === "none" || style.fill.startsWith("url")) continue;
      const fill = parts(style.fill);
      color = over([...fill.slice(0, 3), fill[3] * Number(style.fillOpacity)], color);
    }
    return color;
  };

  const root = document.documentElement;
  const limit = root.clientWidth;
  if (root.scrollWidth > limit) {
    for (const element of document.body.querySelectorAll("*")) {
      const box = element.getBoundingClientRect();
      if (box.right + scrollX <= limit + 0.5) continue;
      let held = false;
      for (let at = element.parentElement; at && at !== document.body; at = at.parentElement) {
        held ||= getComputedStyle(at).overflowX !== "visible";
      }
      if (!held) keep(found.overflow, told(element, `reaches ${Math.round(box.right)} of ${limit} px`));
    }
    if (!found.overflow.length) found.overflow.push(`the page is ${root.scrollWidth} px wide, the screen ${limit}`);
  }

  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (texts.nextNode()) {
    const node = texts.currentNode;
    const words = node.data.trim();
    const element = node.parentElement;
    if (!words || ["STYLE", "SCRIPT", "title", "desc"].includes(element.tagName)) continue;
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    const style = getComputedStyle(element);
    if (!box.width || !box.height || style.visibility !== "visible") continue;
    found.texts += 1;
    const svg = element.closest("svg");
    const scale = svg ? Math.abs(element.getScreenCTM().d) : 1;
    const size = parseFloat(style.fontSize) * scale;
    if (size < 10.99) keep(found.small, told(element, `${size.toFixed(1)} px: ${words.slice(0, 40)}`));
    const color = parts(svg ? style.fill : style.color);
    color[3] *= dim(element);
    const under = svg ? behind(element, svg, box) : backdrop(element);
    const ratio = contrast(over(color, under), under);
    if (ratio < 4.495) keep(found.pale, told(element, `${ratio.toFixed(2)}: ${words.slice(0, 40)}`));
    if (svg || box.height < 1.9 * size) continue;
    for (const word of node.data.matchAll(/[^\s]{4,}/g)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size;
      if (lines > 1 && word[0].length / lines < 3) keep(found.split, told(element, word[0].slice(0, 40)));
    }
  }
  found.charts = [...document.querySelectorAll("svg.chart")].map((svg) => Math.round(svg.getBoundingClientRect().height));
  return JSON.stringify(found);
})()
