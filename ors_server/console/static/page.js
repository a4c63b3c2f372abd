// Keys, copying, dialogs and sheets; every page is readable without.
"use strict";
(() => {
  const by = (id) => document.getElementById(id);
  const KEYS = "ors-console-keys";

  // Sheets close after a tap on a link of the same page.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[popover] a[href^='#']");
    if (link) link.closest("[popover]").hidePopover?.();
    const copy = event.target.closest("[data-copy], [data-copy-text]");
    if (copy) {
      const text = copy.dataset.copyText ?? new URL(copy.dataset.copy, location.href).href;
      navigator.clipboard?.writeText(text).then(() => { by("announcer").textContent = "Copied"; });
      copy.closest("[popover]")?.hidePopover();
    }
    const opener = event.target.closest("[data-dialog]");
    if (opener) { opener.closest("[popover]")?.hidePopover(); by(opener.dataset.dialog).showModal(); }
  });

  // Lists that refresh: not while the page is hidden, or while the reader uses them.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const target = event.target;
    if (document.hidden || target.contains(document.activeElement)) event.preventDefault();
  });
  const state = by("connection");
  const say = (word, look) => { if (state) { state.textContent = word; state.className = "live " + look; } };
  document.addEventListener("htmx:afterRequest", (event) => {
    const status = event.detail.xhr.status;
    if (status === 401) { event.target.removeAttribute("hx-get"); event.target.removeAttribute("hx-trigger"); say("Signed out", "off"); }
    else if (event.detail.successful) say("Live", "");
    else say("Reconnecting…", "wait");
  });

  // The step in view is marked in the outline.
  const steps = document.querySelectorAll("#list > li");
  if (steps.length && "IntersectionObserver" in window) {
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        document.querySelector("#outline [aria-current]")?.removeAttribute("aria-current");
        const line = document.querySelector(`#outline li[data-step="${entry.target.dataset.step}"] a`);
        line?.setAttribute("aria-current", "true");
        const side = line?.closest(".side"), top = line?.offsetTop ?? 0;
        if (side && (top < side.scrollTop || top > side.scrollTop + side.clientHeight - 60)) side.scrollTop = top - side.clientHeight / 2;
      }
    }, { rootMargin: "-15% 0px -75% 0px" });
    steps.forEach((step) => observer.observe(step));
  }
  const wanted = new URLSearchParams(location.search).get("step");
  if (wanted && !location.hash) by(`s${Number(wanted)}`)?.scrollIntoView();

  // Chips and the search within the steps of this page; closed parts are searched, and opened where they match.
  const within = by("within"), list = by("list");
  if (within) {
    within.hidden = false;
    within.addEventListener("change", (event) => {
      const kind = event.target.dataset.hide;
      if (kind) list.classList.toggle(`hide-${kind}`, event.target.checked);
    });
    const field = by("within-text");
    const find = () => {
      const text = field.value.trim().toLowerCase();
      let found = 0;
      for (const step of list.children) {
        const matches = !text || step.textContent.toLowerCase().includes(text);
        step.hidden = !matches;
        found += matches;
        if (!text) continue;
        for (const part of step.querySelectorAll("details")) if (part.textContent.toLowerCase().includes(text)) part.open = true;
      }
      by("within-told").textContent = text ? `${found} of ${list.children.length} steps` : "";
    };
    field.addEventListener("input", find);
    new MutationObserver(() => { if (field.value) find(); }).observe(list, { childList: true });
  }

  // Keys
  const toggle = by("keys-on");
  if (toggle) {
    toggle.checked = localStorage.getItem(KEYS) !== "off";
    toggle.addEventListener("change", () => localStorage.setItem(KEYS, toggle.checked ? "on" : "off"));
  }
  const items = () => [...document.querySelectorAll("#list > li, table.cards tbody tr")];
  let at = -1;
  function move(step, isWanted) {
    const all = items();
    if (at < 0 && step > 0) {
      const top = all.findIndex((item) => item.getBoundingClientRect().top > 60);
      at = (top < 0 ? all.length : top) - 1;
    }
    for (let next = at + step; next >= 0 && next < all.length; next += step) {
      if (!isWanted(all[next])) continue;
      at = next;
      const link = all[next].querySelector("a");
      all[next].scrollIntoView({ block: all[next].matches("tr") ? "nearest" : "start" });
      link?.focus({ preventScroll: true });
      return;
    }
  }
  const any = () => true, marked = (item) => item.querySelector("header .mark, .mark.solid, .mark.bad") !== null;
  const actions = {
    j: () => move(1, any), k: () => move(-1, any), n: () => move(1, marked), N: () => move(-1, marked),
    "[": () => by("previous")?.click(), "]": () => by("following")?.click(),
    "/": () => by("filter")?.focus(), "?": () => by("help").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !toggle?.checked) return;
    if (event.target.closest("input, textarea, select, [contenteditable], dialog[open]")) return;
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  });
})();
