// Several targets (words of a translation or caption): shade the text for one of them and show its metrics.
let selectedTarget = null;
function shadeFor(weights, target) {
  if (imageAxis) return showCells(weights, target);
  const words = [...document.querySelectorAll("#text .prose .word[data-tokens]")];
  const sums = words.map((word) => word.dataset.tokens.split(",").reduce((sum, i) => sum + weights[Number(i)], 0));
  const peak = Math.max(...sums, 1e-12);
  words.forEach((word, i) => {
    word.style.setProperty("--a", Math.min(1, sums[i] / peak).toFixed(4));
    word.dataset.w = sums[i];
    word.dataset.first ??= word.dataset.tip;  // the original tooltip
    word.dataset.tip = weights === look.weights ? word.dataset.first : `${word.textContent.trim()}  ${number(sums[i])}${hidden(word, target)}`;
  });
  if ($("strongest")) $("strongest").textContent = `0 to ${peak.toPrecision(3)}, the most attended word`;
}
// Score of the target without this word.
function hidden(word, target) {
  const after = target?.scores_without?.[Number(word.dataset.tokens.split(",")[0])];
  return typeof after === "number" ? `\nwithout it log p(${target.label}) ${number(target.log_p)} → ${number(after)}` : "";
}
function selectTarget(index) {
  selectedTarget = index;
  const target = index === null ? null : look.targets[index];
  shadeFor(target ? target.weights : look.weights, target);
  const report = target ? target.faithfulness : look.faithfulness;
  document.querySelector("#faithfulness .verdict").textContent = (target ? `“${target.label}”: ` : "") +
    (report ? report.verdict : "Not measured.");
  const table = document.querySelector("#faithfulness table.metrics");
  if (table) fillMetrics(table, report ? report.metrics : [], true);
  for (const button of document.querySelectorAll("#targets button")) {
    button.setAttribute("aria-pressed", String(button.dataset.target === (index === null ? "" : String(index))));
  }
  for (const word of document.querySelectorAll("#text .prose .word[data-tokens]")) {
    const first = Number(word.dataset.tokens.split(",")[0]);
    word.classList.toggle("target", Boolean(target) && target.tokens.includes(first));
  }
}
// Other attributions: gradients and leave-one-out.
function shadeBy(name) {
  const inText = document.querySelector('#shade input[value="text"]');
  if (inText && name) {  // only attention has weights within sentences
    inText.checked = true;
    document.querySelector("#text .prose").classList.remove("by-sentence");
  }
  shadeFor(name ? look.other_attributions[name] : look.weights);
  if ($("strongest")) $("strongest").textContent += name ? `, by ${name}` : "";
}
function wireTargets() {
  $("by")?.addEventListener("change", (event) => change({ by: event.target.value }));
  if (!look.targets) return;
  $("targets")?.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-target]");
    if (button) change({ word: button.dataset.target === "" ? null : Number(button.dataset.target) });
  });
  document.querySelector("#text .prose")?.addEventListener("click", (event) => {
    const word = event.target.closest(".word[data-tokens]");
    const first = word && Number(word.dataset.tokens.split(",")[0]);
    const found = word ? look.targets.findIndex((q) => q.tokens.includes(first)) : -1;
    if (found >= 0) change({ word: found });
  });
}
