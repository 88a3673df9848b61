// Tooltips on hover, tap or focus for elements with data-tip; arrow keys move through the words of a text.
const tip = document.getElementById("tip");
function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.max(4, Math.min(x - width / 2, innerWidth - width - 4));
  const top = y - height - 10 > 0 ? y - height - 10 : y + 26;
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}
function hideTip() { tip.hidden = true; }
function tipFor(target) {
  const owner = target instanceof Element ? target.closest("[data-tip]") : null;
  if (!owner || !owner.dataset.tip) return hideTip();
  const box = owner.getClientRects()[0];
  showTip(owner.dataset.tip, box.left + box.width / 2, box.top);
}
document.addEventListener("pointerover", (event) => tipFor(event.target));
document.addEventListener("pointerdown", (event) => tipFor(event.target));
document.addEventListener("focusin", (event) => tipFor(event.target));
document.addEventListener("focusout", hideTip);
document.addEventListener("scroll", hideTip, true);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });
document.documentElement.addEventListener("pointerleave", hideTip);

for (const text of document.querySelectorAll("[data-words]")) {
  const words = [...text.querySelectorAll(".word")];
  if (!words.length) continue;
  words[0].tabIndex = 0;  // one tab stop; the arrow keys move on
  text.addEventListener("keydown", (event) => {
    const at = words.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (at < 0 || !step) return;
    event.preventDefault();
    const next = words[Math.max(0, Math.min(words.length - 1, at + step))];
    words[at].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
