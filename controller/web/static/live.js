// Keeps the part of the page marked data-live as the server has it, without a reload: asks again every few seconds
// with the ETag of what is shown, and changes only what differs, so that focus, selection and scrolling stay.
// The page is whole without this file.
"use strict";

(() => {
  const region = document.querySelector("[data-live]");
  if (!region) return;
  const every = Number(document.body.dataset.refreshSeconds) * 1000;
  const connection = document.getElementById("connection");
  const trouble = document.getElementById("trouble");
  const pause = document.getElementById("pause");
  let tag = null;
  let seenAt = new Date();
  let paused = false;
  let timer = null;
  let asking = false;

  const clock = (date) => date.toISOString().slice(11, 19) + " UTC";

  function say(where, text) {
    if (where.textContent !== text) where.textContent = text;
    where.hidden = text === "";
  }

  function tell(problem) {
    say(connection, paused ? "Updates are paused" : problem ? "" : "Live");
    connection.title = `As of ${clock(seenAt)}`;
    say(trouble, problem && !paused ? `${problem} What you see is from ${clock(seenAt)}. Trying again every ${every / 1000} s.` : "");
  }

  async function ask() {
    const headers = { Accept: "text/html", ...(tag && { "If-None-Match": tag }) };
    let answer, text;
    try {
      answer = await fetch(location.href, { headers, cache: "no-store", signal: AbortSignal.timeout(10000) });
      text = await answer.text();
    } catch {
      return "The server cannot be reached.";
    }
    if (paused) return "";
    if (answer.status !== 304) {
      const there = answer.ok && new DOMParser().parseFromString(text, "text/html");
      const fresh = there && there.querySelector("[data-live]");
      if (!fresh && answer.status === 401) return "You are not signed in any more: reload the page.";
      if (!fresh) return answer.status === 404 ? "This is not there any more." : `The server answers with error ${answer.status}.`;
      const atEnd = [...region.querySelectorAll("[data-follow]")].filter(isAtEnd);
      become(region, fresh);
      atEnd.forEach((log) => { log.scrollTop = log.scrollHeight; });
      tag = answer.headers.get("ETag");
    }
    seenAt = new Date();
    return "";
  }

  function isAtEnd(log) {
    return log.scrollHeight > log.clientHeight && log.scrollHeight - log.scrollTop - log.clientHeight < 8;
  }

  // Makes `old` like `fresh`, keeping the nodes that both have.
  function become(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const kept = counterpart(at, child);
      if (!kept) {
        old.insertBefore(document.importNode(child, true), at);
        continue;
      }
      while (at !== kept) at = dropped(at);
      become(kept, child);
      at = kept.nextSibling;
    }
    while (at) at = dropped(at);
  }

  function dropped(node) {
    const next = node.nextSibling;
    node.remove();
    return next;
  }

  // The node that stands for `child`, at `at` or later: by its key where it has one, else by kind and class; text here.
  function counterpart(at, child) {
    if (child.nodeType !== Node.ELEMENT_NODE) return at && at.nodeType === child.nodeType ? at : null;
    for (let node = at; node; node = node.nextSibling) if (isAlike(node, child)) return node;
    return null;
  }

  function isAlike(node, child) {
    if (node.nodeName !== child.nodeName || keyOf(node) !== keyOf(child)) return false;
    return keyOf(node) !== null || node.className === child.className;
  }

  function keyOf(node) {
    return node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id || null : null;
  }

  async function turn() {
    clearTimeout(timer);
    if (paused || document.hidden || asking) return;
    asking = true;
    tell(await ask());
    asking = false;
    clearTimeout(timer);
    timer = setTimeout(turn, every);
  }

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
    tell("");
    turn();
  });
  document.addEventListener("visibilitychange", turn);
  say(pause, "Pause");
  tell("");
  timer = setTimeout(turn, every);
})();
