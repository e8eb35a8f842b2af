// The console's own script: modal questions, copy buttons, keys, the count poll. Everything works without it, slower.
// It reads data- attributes and holds no words: what people read comes from templates.
"use strict";
(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const words = (name) => document.body.dataset[name] || "";

  // ---- Announcements: polite, and never a torrent ------------------------------------------------------------------
  let announcing;
  function announce(text) {
    clearTimeout(announcing);
    announcing = setTimeout(() => { const box = $("#announce"); if (box) box.textContent = text; }, 400);
  }

  // ---- Forms sent by htmx carry the newest token: a second sign-in in another tab changes it -----------------------
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.verb === "get") return;
    const token = document.cookie.match(/(?:^|; )csrftoken=([^;]+)/);
    if (!token) return;
    event.detail.parameters.delete?.("csrfmiddlewaretoken");
    event.detail.headers["X-CSRFToken"] = decodeURIComponent(token[1]);
  });
  // No answer at all (the network, a restart): say so, once, and keep everything on the page.
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, (event) => {
      const template = $("#no-answer"), notices = $("#notices");
      if (!template || event.detail.elt?.closest("[data-poll]")) return;
      notices.replaceChildren(template.content.cloneNode(true));
    });
  }

  // A notice that arrives while a question is open would lie behind it, dimmed and out of reach: it goes inside.
  const notices = $("#notices");
  if (notices) new MutationObserver(() => {
    const dialog = $("dialog[data-modal][open]");
    if (!dialog || !notices.childElementCount) return;
    let box = $("[data-notices]", dialog);
    if (!box) {
      box = document.createElement("div");
      box.dataset.notices = "";
      box.setAttribute("role", "alert");
      $("header", dialog).after(box);
    }
    box.replaceChildren(...notices.childNodes);
  }).observe(notices, { childList: true });

  // ---- Questions: a fragment that holds a <dialog class="ask"> opens as a modal, and gives the focus back ----------
  let before;
  function openDialogs(root) {
    for (const dialog of $$("dialog[data-modal]:not([open])", root)) {
      before = before || document.activeElement;
      dialog.addEventListener("close", () => {
        if (!dialog.hasAttribute("data-keep")) dialog.remove();
        if (before && before.isConnected) before.focus();
        before = undefined;
      }, { once: true });
      dialog.showModal();
      // Not `autofocus`: what is swapped in while something has the focus makes the browser complain in its console.
      $("[data-focus]", dialog)?.focus();
    }
  }
  document.addEventListener("htmx:afterSettle", (event) => openDialogs(event.detail.target || document));
  document.addEventListener("click", (event) => {
    const closer = event.target.closest("[data-close]");
    const dialog = closer && closer.closest("dialog");
    if (dialog && dialog.open) { event.preventDefault(); dialog.close(); }
    const opener = event.target.closest("[data-open]");
    if (opener) { event.preventDefault(); before = opener; $(opener.dataset.open)?.showModal(); }
    for (const menu of $$("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const menu = document.activeElement.closest?.("details.menu[open]") || $("details.menu[open]");
    if (menu) { menu.open = false; $("summary", menu).focus(); }
  });

  // ---- Copy buttons ------------------------------------------------------------------------------------------------
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    event.preventDefault();
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      announce(words("copied") + " " + button.dataset.copy);
      button.classList.add("is-done");
      setTimeout(() => button.classList.remove("is-done"), 1200);
    } catch {  // plain http on another host has no clipboard: select the text, so that the person's own keys copy it
      const text = button.previousElementSibling;
      if (text) getSelection().selectAllChildren(text);
    }
  });

  // ---- Keys: / j k x o r ? -----------------------------------------------------------------------------------------
  const rows = () => $$("[data-row]").filter((row) => row.offsetParent !== null);
  function move(step) {
    const all = rows();
    if (!all.length) return;
    const now = all.findIndex((row) => row.classList.contains("is-focus"));
    const next = all[Math.min(Math.max(now + step, 0), all.length - 1)];
    for (const row of all) row.classList.toggle("is-focus", row === next);
    ($("a[data-row-link]", next) || $("a", next))?.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }
  const focused = () => $("[data-row].is-focus");
  const actions = {
    "/": () => { const box = $("#q") || $("#find"); box?.focus(); box?.select(); },
    j: () => move(1),
    k: () => move(-1),
    x: () => { const row = focused(); if (row) $("input[type=checkbox]:not(:disabled)", row)?.click(); },
    o: () => { const row = focused(); if (row) ($("a[data-row-link]", row) || $("a", row))?.click(); },
    r: () => { const refresh = $("[data-refresh]"); if (refresh) refresh.click(); else location.reload(); },
    "?": () => { const help = $("#keys"); if (help && !help.open) { before = document.activeElement; help.showModal(); } },
  };
  document.addEventListener("keydown", (event) => {
    if (words("keys") === "off" || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]")) return;
    if ($("dialog[open]")) return;
    const action = actions[event.key];
    if (action) { event.preventDefault(); action(); }
  });
  // The row one tabs or clicks into is the row the keys go on from.
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest("[data-row]");
    if (row) for (const other of rows()) other.classList.toggle("is-focus", other === row);
  });
  $("#keys")?.addEventListener("close", () => { if (before && before.isConnected) before.focus(); before = undefined; });

  // ---- Rows that changed since they were read stay where they are: grey, without a checkbox, with the reason ---------
  const shownRows = () => {
    const rows = $$("[data-row][data-version]").map((row) => `${row.dataset.row}:${row.dataset.version}`);
    return rows.length ? `&rows=${encodeURIComponent(rows.join(","))}` : "";
  };
  function greyRows(box) {
    for (const told of $$("[data-gone]", box)) {
      const row = $(`[data-row="${CSS.escape(told.dataset.gone)}"]`);
      if (!row) continue;
      row.classList.add("is-gone");
      const picked = $("input[type=checkbox]", row), note = $("[data-gone-note]", row);
      if (picked) { picked.checked = false; picked.disabled = true; }
      if (note) { note.textContent = told.textContent; note.title = told.textContent; }
    }
  }

  // ---- The count poll: <div data-poll="/queue/count/?…" data-every="15"> is filled with what the address answers ---
  // The rows on the page are named to it (data-row, data-version); it names those that changed: <span data-gone="id">why</span>.
  // Backs off while nothing changes, pauses in a hidden tab, asks at once when the tab comes back. The answer may carry
  // data-announce="…" for screen readers. Nothing else on the page is touched.
  const MOST = 120;
  function poll(box) {
    const base = Number(box.dataset.every) || 15;
    let every = base, last = box.innerHTML, timer, busy = false;
    const later = () => { clearTimeout(timer); if (!document.hidden && box.isConnected) timer = setTimeout(ask, every * 1000); };
    async function ask() {
      if (busy || document.hidden || !box.isConnected) return;
      busy = true;
      try {
        const answer = await fetch(box.dataset.poll + shownRows(), { headers: { "HX-Request": "true", "X-Poll": "1" }, credentials: "same-origin" });
        if (answer.status === 401 || answer.headers.has("HX-Redirect")) { box.removeAttribute("data-poll"); return; }
        const text = answer.ok ? (await answer.text()).trim() : last;
        if (answer.ok && text !== last) {
          last = text; every = base;
          box.innerHTML = text;  // from our own origin, escaped by the template; the policy allows no inline script
          window.htmx?.process(box);
          const said = $("[data-announce]", box);
          if (said) announce(said.dataset.announce);
          greyRows(box);
        } else every = Math.min(every * (answer.ok ? 1.5 : 2), MOST);
      } catch { every = Math.min(every * 2, MOST); }
      finally { busy = false; if (box.hasAttribute("data-poll")) later(); }
    }
    document.addEventListener("visibilitychange", () => { if (document.hidden) clearTimeout(timer); else { every = base; ask(); } });
    later();
  }
  const polled = new WeakSet();
  function startPolls(root) {
    for (const box of $$("[data-poll]", root)) if (!polled.has(box)) { polled.add(box); poll(box); }
  }
  startPolls(document);
  document.addEventListener("htmx:afterSettle", () => startPolls(document));

  // ---- What was typed and not sent survives a swap of its list ------------------------------------------------------
  const typed = new Map();
  document.addEventListener("htmx:beforeSwap", (event) => {
    for (const field of $$("[data-keep-typed]", event.detail.target)) {
      if (field.value !== field.defaultValue && event.detail.requestConfig.elt !== field.form) typed.set(field.id, field.value);
    }
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const [id, value] of typed) { const field = document.getElementById(id); if (field) field.value = value; }
    typed.clear();
  });

  // ---- Small comforts ----------------------------------------------------------------------------------------------
  // Offers the browser's own time zone where one is chosen.
  const offer = $("[data-browser-zone]"), zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (offer && zone && $(offer.dataset.browserZone)?.value !== zone) {
    offer.hidden = false;
    offer.append(" " + zone);
    offer.addEventListener("click", () => { $(offer.dataset.browserZone).value = zone; });
  }
})();
