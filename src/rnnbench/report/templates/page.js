// The page works without this: it adds buttons, and opens what a link or a printer needs.
const opened = (target) => {
  for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
};
const follow = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target) { opened(target); target.scrollIntoView(); }
};
addEventListener("hashchange", follow);
follow();
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details.part:not([open]), details.more:not([open])")];
  for (const one of closed) one.open = true;
});
addEventListener("afterprint", () => { for (const one of closed) one.open = false; });
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
const drawing = (svg, ink) => {
  const copy = svg.cloneNode(true), box = svg.viewBox.baseVal;
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  copy.setAttribute("color", ink);
  return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
};
const picture = (svg, name) => {
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
  image.src = URL.createObjectURL(drawing(svg, "#1c1e21"));
};
for (const caption of document.querySelectorAll("figure > figcaption")) {
  const svg = caption.parentElement.querySelector("svg"), name = caption.parentElement.id;
  for (const [words, act] of [
    ["SVG", () => save(drawing(svg, "#1c1e21"), name + ".svg")],
    ["PNG", () => picture(svg, name + ".png")],
  ]) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: words });
    button.setAttribute("aria-label", `Download this figure as ${words}`);
    button.addEventListener("click", act);
    caption.append(button);
  }
  caption.hidden = false;
}
