// Optional: adds buttons, and opens folded content for links and for printing.
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
