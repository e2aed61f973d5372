/** The page: tabs, theme, keyboard shortcuts, the error line and the server's models. */

import { get, onKey } from "./api.js";
import { hideBubble } from "./bubble.js";
import { Draw } from "./draw.js";
import { find, make } from "./dom.js";
import { Explain } from "./explain.js";
import { icon } from "./icons.js";
import { clearError, fail, models, ofKind } from "./page.js";
import { Surprise } from "./surprise.js";
import { Write } from "./write.js";

const TABS = ["write", "surprise", "draw", "explain"];
const parts = {};

/** The visible part. */
const current = () => parts[TABS.find((name) => !find(name).hidden)];

// ------------------------------------------------------------------------------------------------- tabs

function openTab(name, focus = false) {
  hideBubble();
  for (const other of TABS) {
    const chosen = other === name, tab = find(`tab-${other}`);
    find(other).hidden = !chosen;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
    if (chosen && focus) tab.focus();
  }
  if (location.hash !== `#${name}`) history.replaceState(null, "", `#${name}`);
}

function tabKey(event) {
  const at = TABS.indexOf(event.target.dataset.tab);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  openTab(TABS[(to + TABS.length) % TABS.length], true);
}

function addTabs() {
  for (const name of TABS) {
    find(`tab-${name}`).addEventListener("click", () => openTab(name));
    find(`tab-${name}`).addEventListener("keydown", tabKey);
  }
  const fromHash = () => openTab(TABS.find((name) => `#${name}` === location.hash) ?? firstTab());
  addEventListener("hashchange", fromHash);
  fromHash();
}

const firstTab = () => (ofKind("text").length || !ofKind("picture").length ? "write" : "draw");

// ------------------------------------------------------------------------------------------------ theme

/** "light", "dark" or "auto": the system's theme, until the user chooses one. */
function useTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const name = `Switch to ${isDark() ? "light" : "dark"}`;
  find("theme").setAttribute("aria-label", name);
  find("theme").title = name;
}

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme === "dark" || (theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
}

function addTheme() {
  find("theme").append(icon("theme"));
  find("theme").addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    localStorage.setItem("unmask-theme", theme);
    useTheme(theme);
  });
  const stored = localStorage.getItem("unmask-theme");
  useTheme(["light", "dark"].includes(stored) ? stored : "auto");
}

// ------------------------------------------------------------------------------------------------- keys

function pressed(event) {
  const command = event.ctrlKey || event.metaKey, writes = event.target.matches?.("input, textarea, select");
  if (command && event.key === "Enter") {
    event.preventDefault();
    current()?.run?.();
  } else if (event.key === "Escape" && !find("key").open) {
    hideBubble();
    current()?.cancel?.();
  } else if (command && event.key.toLowerCase() === "z" && !event.shiftKey && !writes) {
    event.preventDefault();
    current()?.undo?.();
  } else if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && !command && !event.altKey && !writes) {
    current()?.move?.(event.key === "ArrowLeft" ? -1 : 1);
  }
}

// -------------------------------------------------------------------------------------------- the key

/** Ask for the API key; null if the user cancels. */
function askForKey(wrong) {
  const dialog = find("key");
  find("key-wrong").hidden = !wrong;
  return new Promise((resolve) => {
    find("key-form").onsubmit = (event) => {
      event.preventDefault();
      dialog.onclose = null;
      dialog.close();
      resolve(find("key-input").value);
    };
    dialog.onclose = () => resolve(null);
    find("key-cancel").onclick = () => dialog.close();
    find("key-input").value = "";
    dialog.showModal();
  });
}

// ------------------------------------------------------------------------------------------------ start

function fill(name, part) {
  parts[name] = part;
  find(name).replaceChildren(part.root);
}

function without(name, kind) {
  find(name).replaceChildren(make("p", { class: "empty" }, `No ${kind} model is being served. Start the server with one: unmask serve RUN`));
}

async function start() {
  addTheme();
  onKey(askForKey);
  find("error-close").append(icon("close"));
  find("error-close").addEventListener("click", clearError);
  document.addEventListener("keydown", pressed);
  addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    fail(event.reason);
  });
  addEventListener("error", (event) => event.error && fail(event.error));
  addEventListener("scroll", hideBubble, { passive: true });
  fill("explain", new Explain());
  addTabs();
  models.push(...(await get("/api/models")));
  if (ofKind("text").length) {
    fill("write", new Write());
    fill("surprise", new Surprise(() => parts.write.board.area.value));
  } else {
    without("write", "text");
    without("surprise", "text");
  }
  if (ofKind("picture").length) fill("draw", new Draw());
  else without("draw", "image");
  if (!location.hash || !TABS.includes(location.hash.slice(1))) openTab(firstTab());
}

start().catch(fail).finally(() => (document.documentElement.dataset.ready = "true"));
