// Where several words can be asked about (those of a translation): the text shaded for one of them, and its own figures.
let asked = null;
function shadeFor(weights, question) {
  if (cells) return showCells(weights, question);
  const words = [...document.querySelectorAll("#text .prose .word[data-tokens]")];
  const sums = words.map((word) => word.dataset.tokens.split(",").reduce((sum, i) => sum + weights[Number(i)], 0));
  const peak = Math.max(...sums, 1e-12);
  words.forEach((word, i) => {
    word.style.setProperty("--a", Math.min(1, sums[i] / peak).toFixed(4));
    word.dataset.w = sums[i];
    word.dataset.first ??= word.dataset.tip;  // as it was told, with its parts
    word.dataset.tip = weights === look.weights ? word.dataset.first : `${word.textContent.trim()}  ${number(sums[i])}${hidden(word, question)}`;
  });
  if ($("strongest")) $("strongest").textContent = `0 to ${peak.toPrecision(3)}, the strongest word`;
}
// What the word asked about would be without this one.
function hidden(word, question) {
  const after = question?.without?.[Number(word.dataset.tokens.split(",")[0])];
  return typeof after === "number" ? `\nwithout it log p(${question.label}) ${number(question.log_p)} → ${number(after)}` : "";
}
function ask(index) {
  asked = index;
  const question = index === null ? null : look.questions[index];
  shadeFor(question ? question.weights : look.weights, question);
  const judged = question ? question.faithfulness : look.faithfulness;
  document.querySelector("#faithfulness .verdict").textContent = (question ? `“${question.label}”: ` : "") +
    (judged ? judged.sentence : "Not measured.");
  const table = document.querySelector("#faithfulness table.measures");
  if (table) fillMeasures(table, judged ? judged.rows : [], true);
  for (const button of document.querySelectorAll("#asked button")) {
    button.setAttribute("aria-pressed", String(button.dataset.question === (index === null ? "" : String(index))));
  }
  for (const word of document.querySelectorAll("#text .prose .word[data-tokens]")) {
    const first = Number(word.dataset.tokens.split(",")[0]);
    word.classList.toggle("asked", Boolean(question) && question.tokens.includes(first));
  }
}
// What else can be said of the words: gradients, and how far the answer moves without each.
function shadeBy(name) {
  const inText = document.querySelector('#shade input[value="text"]');
  if (inText && name) {  // within sentences only attention weighs
    inText.checked = true;
    document.querySelector("#text .prose").classList.remove("by-sentence");
  }
  shadeFor(name ? look.instead[name] : look.weights);
  if ($("strongest")) $("strongest").textContent += name ? `, by ${name}` : "";
}
function wireAsked() {
  $("by")?.addEventListener("change", (event) => change({ by: event.target.value }));
  if (!look.questions) return;
  $("asked")?.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-question]");
    if (button) change({ word: button.dataset.question === "" ? null : Number(button.dataset.question) });
  });
  document.querySelector("#text .prose")?.addEventListener("click", (event) => {
    const word = event.target.closest(".word[data-tokens]");
    const first = word && Number(word.dataset.tokens.split(",")[0]);
    const found = word ? look.questions.findIndex((q) => q.tokens.includes(first)) : -1;
    if (found >= 0) change({ word: found });
  });
}
