// Optional: adds buttons, sorts and filters tables, and opens folded content for links and for printing.
const reveal = (target) => {
  for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
};
const follow = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target) { reveal(target); target.scrollIntoView(); }
};
addEventListener("hashchange", follow);
follow();
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details.part:not([open]), details.more:not([open])")];
  for (const details of closed) details.open = true;
});
addEventListener("afterprint", () => { for (const details of closed) details.open = false; });
for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.markdown);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy as Markdown"; }, 1500);
  });
}
const save = (blob, name) => {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
const toBlob = (svg, color) => {
  const copy = svg.cloneNode(true), box = svg.viewBox.baseVal;
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  copy.setAttribute("color", color);
  return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
};
const savePng = (svg, name) => {
  const image = new Image(), canvas = document.createElement("canvas"), box = svg.viewBox.baseVal;
  image.onload = () => {
    [canvas.width, canvas.height] = [3 * box.width, 3 * box.height];
    const paint = canvas.getContext("2d");
    paint.fillStyle = "#fff";
    paint.fillRect(0, 0, canvas.width, canvas.height);
    paint.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(blob, name));
    URL.revokeObjectURL(image.src);
  };
  image.src = URL.createObjectURL(toBlob(svg, "#1c1e21"));
};
for (const caption of document.querySelectorAll("figure > figcaption")) {
  const svg = caption.parentElement.querySelector("svg"), name = caption.parentElement.id;
  for (const [format, download] of [
    ["SVG", () => save(toBlob(svg, "#1c1e21"), name + ".svg")],
    ["PNG", () => savePng(svg, name + ".png")],
  ]) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: format });
    button.setAttribute("aria-label", `Download this figure as ${format}`);
    button.addEventListener("click", download);
    caption.append(button);
  }
  caption.hidden = false;
}
// A heading sorts the rows of its blocks: ascending, descending, as they were. Rows without a value come last.
const FILTERED_FROM = 8;
const numberIn = (text) => parseFloat((text.match(/[-−]?\d[\d,]*(\.\d+)?(e[-‑+]?\d+)?/) || [""])[0].replaceAll(",", "").replace("−", "-").replace("‑", "-"));
const sorted = (rows, column, isNumber, direction) => {
  const texts = new Map(rows.map((row) => [row, row.cells[column].textContent.trim()]));
  const isMissing = (row) => (isNumber ? isNaN(numberIn(texts.get(row))) : ["", "–"].includes(texts.get(row)));
  const compare = (a, b) => (isNumber ? numberIn(a) - numberIn(b) : a.localeCompare(b, "en", { numeric: true }));
  return [...rows].sort((a, b) => isMissing(a) - isMissing(b)
    || (isMissing(a) ? 0 : direction * compare(texts.get(a), texts.get(b))));
};
for (const region of document.querySelectorAll(".scroll:has(> table .stub)")) {
  const blocks = [...region.querySelectorAll("tbody")].map((body) => ({
    body, rows: [...body.rows].filter((row) => row.querySelector(".stub")), heading: body.querySelector(".group")?.parentElement,
  }));
  const rows = blocks.flatMap((block) => block.rows), heads = region.querySelectorAll("thead th[scope=col]:not(.spanner)");
  if (blocks.some((block) => block.rows.length > 1)) for (const head of heads) {
    const column = head.id.endsWith("-corner") ? 0 : Number(head.id.match(/\d+$/)[0]) + 1;
    const button = Object.assign(document.createElement("button"), { type: "button", className: "sort", title: "Sort" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const next = { ascending: "descending", descending: "" }[head.ariaSort] ?? "ascending";
      for (const each of heads) each.ariaSort = null;
      if (next) head.ariaSort = next;
      const isNumber = head.classList.contains("number"), direction = next === "descending" ? -1 : 1;
      for (const { body, rows } of blocks) body.append(...(next ? sorted(rows, column, isNumber, direction) : rows));
    });
  }
  if (rows.length < FILTERED_FROM) continue;
  const input = Object.assign(document.createElement("input"), { type: "search", placeholder: "Filter rows" });
  const count = document.createElement("output"), line = document.createElement("p");
  const title = region.ariaLabel ?? document.getElementById(region.getAttribute("aria-labelledby")).textContent;
  input.ariaLabel = `Filter the rows of ${title}`;
  line.className = [...region.classList].filter((name) => ["desk", "phone"].includes(name)).concat("filter").join(" ");
  line.append(input, " ", count);
  region.before(line);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const { rows, heading } of blocks) {
      const inHeading = (heading?.textContent ?? "").toLowerCase();
      for (const row of rows) {
        const text = `${inHeading} ${row.textContent.toLowerCase()}`;
        row.hidden = !words.every((word) => text.includes(word));
      }
      if (heading) heading.hidden = rows.every((row) => row.hidden);
    }
    count.textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows` : "";
  });
}
