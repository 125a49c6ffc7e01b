"use strict";
// Suggests labels of a text, and collects those that a person accepts. Labels, words and texts come from anybody: they
// become text nodes and never markup.

// Labels of a request, of which the threshold shows some, and words for and against each of them.
const LIMIT = 100, WORDS = 4;
// Characters of a name or a word that are shown, and bytes of a file that are read.
const LONGEST = 200, LARGEST = 1e7;
const DEFAULT_THRESHOLD = 0.3;

const $ = (id) => document.getElementById(id);
let projects = [], project = null, token = "", retry = null, running = null, adding = null;
// `found` are the suggestions for `text`, and `chosen` has what was decided of labels of this text, by their URIs. At most
// `most` are shown, as tuned for the tuned threshold; for one of the slider there is no limit.
let found = null, text = null, chosen = new Map(), threshold = DEFAULT_THRESHOLD, most = Infinity, learning = false;

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// Characters that show nothing, or change the order of others, become escape sequences.
function clean(value, longest = LONGEST) {
  const characters = Array.from(String(value).slice(0, 2 * longest + 2));
  const start = characters.slice(0, longest).join("") + (characters.length > longest ? "…" : "");
  return start.replace(/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/gu,
    (character) => "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0"));
}

function named(value) {
  return make("bdi", { title: String(value).length > LONGEST ? clean(value, 2000) : "" }, clean(value));
}

function percent(value) {
  if (value < 0.01) return "<\u00a01\u00a0%";
  return value < 1 && value >= 0.995 ? ">\u00a099\u00a0%" : `${Math.round(100 * value)}\u00a0%`;
}

// A tuned threshold is exact, one of the slider whole.
const level = () => `${Math.round(1000 * threshold) / 10}\u00a0%`;

const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

function sentence(value) {
  const told = clean(value, 600).trim();
  const shown = told.charAt(0).toUpperCase() + told.slice(1);
  return /[.!?…]$/.test(shown) ? shown : `${shown}.`;
}

class Failure extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// The same words twice are read out twice.
function say(id, message) {
  $(id).textContent = "";
  $(id).textContent = message;
}

async function ask(path, options = {}) {
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  let answer, body;
  try {
    answer = await fetch(path, { ...options, headers, cache: "no-store" });
    body = await answer.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The server cannot be reached, or ended the connection.");
  }
  let value = null;
  try {
    value = body && JSON.parse(body);
  } catch {
    if (answer.ok) throw new Failure("The answer of the server is not JSON.");
  }
  if (answer.ok) return value;
  throw new Failure(sentence(value?.detail || `the server answered with status ${answer.status}`), answer.status);
}

// What a person started: its failure is shown, and with a token it is done again.
async function attempt(action) {
  say("alert", "");
  try {
    await action();
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.status === 401) {
      retry = action;
      $("access").hidden = false;
      $("token").focus();
      if (!token) return;
    }
    say("alert", error instanceof Failure ? error.message : sentence(`The answer of the server cannot be shown: ${error.message}`));
  }
}

const path = (end) => `v1/projects/${encodeURIComponent(project.project_id)}/${end}`;

// --- Projects ---

async function load() {
  projects = (await ask("v1/projects")).projects;
  if (!projects.length) throw new Failure("The server has no projects.");
  $("choice").hidden = projects.length < 2;
  $("project").replaceChildren(...projects.map((own, place) => new Option(clean(own.name), place)));
  choose(0);
}

function choose(place) {
  project = projects[place];
  forget();
  describe();
  const { tuned, learns } = project;
  $("learn").hidden = !learns;
  $("copy").classList.toggle("main", !learns);
  threshold = tuned?.threshold ?? DEFAULT_THRESHOLD;
  most = tuned?.limit ?? Infinity;
  $("threshold").value = Math.round(100 * threshold);
}

function describe() {
  const { vocab, modification_time: time, tuned } = project;
  const about = projects.length > 1 ? [] : [named(project.name), ": "];
  if (vocab?.size) about.push(plural(vocab.size, "label"));
  if (time) about.push(", model of ", make("time", { dateTime: time }, clean(`${time.slice(0, 10)} ${time.slice(11, 16)} UTC`)));
  if (tuned) about.push(`, tuned for ${clean(tuned.metric)}`);
  $("about").replaceChildren(...about);
}

// --- Suggestions ---

function forget() {
  running?.abort();
  adding?.abort();
  [found, text, chosen] = [null, null, new Map()];
  $("shown").hidden = $("by-hand").hidden = true;
  $("labels").replaceChildren();
  $("status").className = "";
  say("status", "The labels of your text appear here.");
  say("told", "");
  showChosen();
}

function given() {
  const value = $("text").value;
  if (value.trim()) return value;
  $("text").focus();
  throw new Failure("Write or paste a text first.");
}

async function request(own, fields, signal) {
  const form = new URLSearchParams({ text: own, ...(project.explains && { explain: WORDS }), ...fields });
  const { results } = await ask(path("suggest"), { method: "POST", body: form, signal });
  const labels = results.map((own) => ({ ...own, p: own.probability ?? own.score }));
  if (!labels.every(({ p, label, uri }) => Number.isFinite(p) && label && uri)) throw new TypeError("a label is incomplete");
  return labels;
}

async function suggest() {
  if (!project) await load();
  const own = given();
  running?.abort();
  const { signal } = (running = new AbortController());
  say("status", "Suggesting…");
  $("status").className = "busy";
  try {
    const results = await request(own, { limit: LIMIT }, signal);
    // What was decided is of another text.
    if (text !== null && own !== text) {
      chosen = new Map();
      say("told", "");
    }
    [found, text] = [results, own];
    showFound();
  } catch (error) {
    if (!signal.aborted) say("status", found ? "These are the labels suggested before." : "No labels are suggested yet.");
    throw error;
  } finally {
    if (!signal.aborted) $("status").className = "";
  }
}

function words(kind, title, list) {
  if (!list?.length) return [];
  const parts = list.flatMap(({ word, contribution }, place) => {
    const value = Number(contribution);
    const signed = `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
    return [place ? ", " : "", named(word), "\u00a0", make("small", {}, signed)];
  });
  return [make("dt", { className: kind }, title), make("dd", {}, ...parts)];
}

function row(label, place) {
  const { p, std } = label;
  const button = (verdict, name, className) => {
    const element = make("button", { type: "button", id: `${className}${place}`, className, onclick: () => toggle(label, verdict) }, name);
    element.setAttribute("aria-labelledby", `${className}${place} name${place}`);
    return element;
  };
  const number = make("span", { className: "number" }, make("b", {}, percent(p)));
  const fill = make("span", { className: "fill" }), track = make("span", { className: "track" }, fill);
  track.ariaHidden = "true";
  fill.style.width = `${100 * p}%`;
  if (std != null) {
    number.append(make("small", {}, ` ±\u00a0${percent(std)}`));
    const [low, high] = [Math.max(0, p - std), Math.min(1, p + std)];
    const spread = make("span", { className: "spread" });
    Object.assign(spread.style, { left: `${100 * low}%`, width: `${100 * (high - low)}%` });
    track.append(spread);
  }
  const name = make("h3", { id: `name${place}` }, named(label.label));
  const title = make("div", {}, name);
  if (label.uri !== label.label) title.append(make("span", { className: "uri" }, named(label.uri)));
  const shares = Object.entries(label.from ?? {}).map(([word, contribution]) => ({ word, contribution }));
  const why = [...words("for", "For", label.for), ...words("against", "Against", label.against), ...words("of", "In all", shares)];
  const item = make("li", {}, title,
    make("div", { className: "choose" }, button("accepted", "Accept", "yes"), button("rejected", "Reject", "no")),
    make("p", { className: "level" }, number, track));
  if (why.length) item.append(make("dl", { className: "why" }, ...why));
  return item;
}

function showFound() {
  $("labels").replaceChildren(...found.map(row));
  $("legend").hidden = !found.some(({ std }) => std != null);
  $("names").replaceChildren(...found.map((label) => make("option", { value: label.label })));
  $("shown").hidden = false;
  filter();
  stale();
  showChosen();
  say("status", `${plural(count(), "label")} suggested`);
}

const isShown = ({ p }, place) => p >= threshold && place < most;
const count = () => found.filter(isShown).length;

function filter() {
  const many = count(), all = found.length, above = found.filter(({ p }) => p >= threshold).length;
  Array.from($("labels").children).forEach((item, place) => { item.hidden = !isShown(found[place], place); });
  $("level").value = level();
  $("threshold").setAttribute("aria-valuetext", `${level()}: ${plural(many, "label")}`);
  const of = all < LIMIT ? `${all}` : `the ${all} best`;
  const best = many || !all ? "" : `; the highest is ${percent(found[0].p)}`;
  const cut = many < above ? `; the ${many === 1 ? "best is" : `${many} best are`} shown, as tuned` : "";
  say("count", `${above} of ${of} labels ${above === 1 ? "is" : "are"} at or above it${cut}${best}`);
  $("all").disabled = !many;
}

function stale() {
  const changed = text !== null && $("text").value !== text;
  $("stale").hidden = !changed;
  return changed;
}

// --- Decisions ---

const accepted = () => Array.from(chosen.values()).filter((own) => own.verdict === "accepted");

function toggle(label, verdict) {
  if (chosen.get(label.uri)?.verdict === verdict) chosen.delete(label.uri);
  else chosen.set(label.uri, { uri: label.uri, label: label.label, isNew: label.isNew, verdict });
  showChosen();
}

function showChosen() {
  Array.from($("labels").children).forEach((item, place) => {
    const verdict = chosen.get(found[place].uri)?.verdict;
    item.className = verdict ?? "";
    item.querySelector(".yes").setAttribute("aria-pressed", verdict === "accepted");
    item.querySelector(".no").setAttribute("aria-pressed", verdict === "rejected");
  });
  const labels = accepted();
  $("accepted").replaceChildren(...labels.map((label, place) => {
    const remove = make("button", { type: "button", onclick: () => {
      toggle(label, "accepted");
      const left = $("accepted").querySelectorAll("button");
      (left[Math.min(place, left.length - 1)] ?? $("name")).focus();
    } }, "✕");
    remove.ariaLabel = `Remove ${clean(label.label)}`;
    return make("li", {}, named(label.label), label.isNew ? make("small", {}, "(new)") : "", remove);
  }));
  $("none").hidden = labels.length > 0;
  $("accepted").hidden = !labels.length;
  $("by-hand").hidden = true;
}

$("labels").addEventListener("keydown", (event) => {
  const item = event.target.closest("li");
  if (!item || event.ctrlKey || event.altKey || event.metaKey) return;
  const key = event.key.toLowerCase(), buttons = { a: ".yes", r: ".no" };
  if (buttons[key]) {
    const button = item.querySelector(buttons[key]);
    button.focus();
    if (!event.repeat) button.click();
  } else if (key === "arrowdown" || key === "arrowup") {
    const items = Array.from($("labels").children).filter((other) => !other.hidden);
    const next = items[items.indexOf(item) + (key === "arrowdown" ? 1 : -1)];
    next?.querySelector(event.target.matches(".no") ? ".no" : ".yes").focus();
  } else return;
  event.preventDefault();
});

async function add() {
  const name = $("name").value.trim();
  if (!name) return $("name").focus();
  if (!project) await load();
  let label = found?.find((own) => own.label === name || own.uri === name);
  if (!label) {
    adding?.abort();
    const { signal } = (adding = new AbortController());
    try {
      // The server knows the label, or says that there is none.
      [label] = await request($("text").value.trim() ? $("text").value : name, { only: name, limit: 1 }, signal);
    } catch (error) {
      if (error.status !== 400 || !project.learns) throw error;
    }
    label ??= { uri: name, label: name, isNew: true };
  }
  if (chosen.get(label.uri)?.verdict !== "accepted") toggle(label, "accepted");
  // From here on the labels belong to this text.
  text ??= $("text").value.trim() ? $("text").value : null;
  $("name").value = "";
  say("told", label.isNew ? `The model does not know ${clean(name)}: it becomes a new label when the model learns this text.` : `Added ${clean(label.label)}.`);
}

function collected() {
  const labels = accepted();
  if (!labels.length) throw new Failure("Accept or add a label first.");
  return labels;
}

async function learn() {
  if (learning) return;
  const labels = collected(), own = given(), taught = project, url = path("learn");
  if (stale()) throw new Failure("The text has changed since its labels were suggested: suggest again first.");
  const subjects = labels.map(({ uri, label, isNew }) => (isNew ? { label } : { uri, label }));
  const button = $("learn"), had = document.activeElement === button;
  learning = button.disabled = true;
  button.textContent = "Learning…";
  $("told").className = "busy";
  say("told", "The model is learning this text. This takes some seconds.");
  try {
    const headers = { "Content-Type": "application/json" };
    await ask(url, { method: "POST", headers, body: JSON.stringify([{ text: own, subjects }]) });
    for (const label of labels) label.isNew = false;
    showChosen();
    say("told", `${clean(taught.name)} has learned this text with ${plural(labels.length, "label")}. The next suggestions use what it learned.`);
  } catch (error) {
    say("told", "The model has not learned this text.");
    throw error;
  } finally {
    learning = button.disabled = false;
    button.textContent = "Learn";
    $("told").className = "";
    // A button that is disabled loses the focus.
    if (had && document.activeElement === document.body) button.focus();
  }
  // The model is of another time now, and may have more labels. A failure here must not let it learn once more.
  Object.assign(taught, await ask(url.slice(0, -"/learn".length)).catch(() => null));
  describe();
}

async function copy() {
  const labels = collected(), lines = labels.map((own) => own.label).join("\n");
  try {
    await navigator.clipboard.writeText(lines);
    say("told", `Copied ${plural(labels.length, "label")}.`);
  } catch {
    // Browsers allow it on pages of this machine and by HTTPS only.
    $("by-hand").hidden = false;
    $("copied").value = lines;
    $("copied").focus();
    $("copied").select();
    say("told", "The browser does not let the page copy. The labels are selected: copy them with Ctrl+C.");
  }
}

// --- Files ---

async function open(file) {
  if (file.size > LARGEST) throw new Failure(`${clean(file.name)} is larger than ${LARGEST / 1e6} MB.`);
  let content;
  try {
    content = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    throw new Failure(`${clean(file.name)} is not a text in UTF-8.`);
  }
  $("text").value = content;
  stale();
  await suggest();
}

for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    // Without this, the browser would leave the page for the file.
    event.preventDefault();
    $("text").classList.toggle("over", kind === "dragover");
    const [file] = kind === "drop" ? event.dataTransfer.files : [];
    if (file) attempt(() => open(file));
  });
}

// --- Controls ---

function on(id, kind, action) {
  $(id).addEventListener(kind, (event) => {
    if (kind === "submit") event.preventDefault();
    attempt(action);
  });
}

on("ask", "submit", suggest);
on("add", "submit", add);
on("learn", "click", learn);
on("copy", "click", copy);
$("text").addEventListener("input", stale);
$("open").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => {
  const [file] = $("file").files;
  $("file").value = "";
  if (file) attempt(() => open(file));
});
$("all").addEventListener("click", () => {
  for (const label of found.filter(isShown)) if (!chosen.has(label.uri)) toggle(label, "accepted");
});
$("threshold").addEventListener("input", () => {
  threshold = $("threshold").value / 100;
  most = Infinity;
  filter();
});
$("project").addEventListener("change", () => {
  say("alert", "");
  choose($("project").value);
});
$("access").addEventListener("submit", (event) => {
  event.preventDefault();
  const value = $("token").value.trim();
  if (!/^[\x21-\x7e]+$/.test(value)) return say("alert", "A token has letters, digits and signs of ASCII only.");
  token = value;
  $("token").value = "";
  $("access").hidden = true;
  $("text").focus();
  attempt(retry);
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  if (!event.repeat) attempt(suggest);
});
attempt(load);
