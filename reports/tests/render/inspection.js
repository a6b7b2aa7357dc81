// What a reader would stumble over, one finding a line. Runs around the report, never in it.
addEventListener("load", () => {
  const findings = [];
  let name = "";
  const fault = (kind, text) => findings.push("fault " + kind + " in " + name + ": " + text);
  const parse = (colour) => {
    const found = colour.match(/rgba?\(([^)]+)\)/);
    if (!found) return null;
    const [r, g, b, a = 1] = found[1].split(/[ ,/]+/).filter(Boolean).map(Number);
    return { r, g, b, a };
  };
  const luminance = ({ r, g, b }) => {
    const linear = [r, g, b].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const behind = (view, element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(view.getComputedStyle(at).backgroundColor);
      if (colour && colour.a > 0.99) return colour;
    }
    return { r: 255, g: 255, b: 255, a: 1 };
  };
  for (const frame of document.querySelectorAll("iframe")) {
    name = frame.title;
    const page = frame.contentDocument;
    const view = frame.contentWindow;
    const width = frame.clientWidth;
    const root = page.documentElement;
    findings.push("frame " + name + " at " + width + " scrolls " + root.scrollWidth);
    findings.push("background " + name + " " + view.getComputedStyle(page.body).backgroundColor);
    const isDesktop = width >= 1280;
    for (const table of isDesktop ? page.querySelectorAll("table.cells") : []) {
      if (table.scrollWidth > table.parentElement.clientWidth) fault("cut", table.scrollWidth + " wide cells");
    }
    if (root.scrollWidth > width) fault("overflow", root.scrollWidth + " > " + width);
    const scripts = [...page.scripts].filter((script) => script !== page.body.lastElementChild);
    if (scripts.length) fault("element", scripts.length + " × script");
    for (const tag of ["img", "iframe", "object", "embed", "testcase"]) {
      const count = page.querySelectorAll(tag).length;
      if (count) fault("element", count + " × " + tag);
    }
    for (const element of page.querySelectorAll("[src],[href]")) {
      const target = element.getAttribute("src") || element.getAttribute("href");
      if (!/^(#|data:)/.test(target)) fault("request", target);
      if (target.startsWith("#") && !page.getElementById(target.slice(1))) fault("link", target);
    }
    const ids = [...page.querySelectorAll("[id]")].map((element) => element.id);
    if (new Set(ids).size !== ids.length) fault("id", "an id is used twice");
    if (!root.lang) fault("language", "none");
    for (const landmark of ["header", "main", "footer"]) {
      if (page.querySelectorAll(landmark).length !== 1) fault("landmark", landmark);
    }
    let last = 0;
    for (const heading of page.querySelectorAll("h1,h2,h3,h4")) {
      const level = Number(heading.tagName[1]);
      if (level > last + 1) fault("heading", heading.textContent);
      last = level;
    }
    if (page.querySelectorAll("h1").length !== 1) fault("heading", "not one h1");
    for (const table of page.querySelectorAll("table")) {
      if (!table.caption || !table.caption.textContent.trim()) fault("caption", table.textContent.slice(0, 40));
      for (const th of table.querySelectorAll("th")) if (!th.scope) fault("scope", th.textContent);
    }
    for (const scroller of page.querySelectorAll(".scroll")) {
      if (scroller.tabIndex !== 0 || !scroller.getAttribute("aria-label")) fault("keyboard", scroller.className);
    }
    for (const svg of page.querySelectorAll("svg")) {
      const named = svg.getAttribute("role") === "img" && svg.getAttribute("aria-label");
      if (!named && svg.getAttribute("aria-hidden") !== "true") fault("image", "an svg without a name");
    }
    const seen = new Set();
    for (const element of page.body.querySelectorAll("*")) {
      const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
      if (!text || !element.getClientRects().length) continue;
      const style = view.getComputedStyle(element);
      const front = parse(element.closest("svg") ? style.fill : style.color);
      const back = behind(view, element);
      if (!front) continue;
      const [low, high] = [luminance(front), luminance(back)].sort((a, b) => a - b);
      const ratio = (high + 0.05) / (low + 0.05);
      const key = element.tagName + element.className.toString() + ratio.toFixed(2);
      if (ratio < 4.5 && !seen.has(key)) {
        seen.add(key);
        fault("contrast", ratio.toFixed(2) + " " + element.tagName + " " + element.textContent.slice(0, 40));
      }
    }
  }
  document.getElementById("findings").textContent = findings.join("\n");
  for (const frame of document.querySelectorAll("iframe")) frame.remove();
});
