// Updates the element marked data-live every few seconds without reloading the page. Each request carries the ETag of
// the content on screen, so that unchanged content is not sent again. Idiomorph changes only the nodes that differ:
// focus, selection and scroll positions stay. Without JavaScript the page is complete, but not updated.
"use strict";

(() => {
  const region = document.querySelector("[data-live]");
  if (!region) return;
  const intervalMs = Number(document.body.dataset.refreshSeconds) * 1000;
  const connection = document.getElementById("connection");
  const trouble = document.getElementById("trouble");
  const pauseButton = document.getElementById("pause");
  let etag = null;
  let updatedAt = new Date();
  let isPaused = false;
  let isRequesting = false;
  let timer = null;

  const clock = (date) => date.toISOString().slice(11, 19) + " UTC";

  function setText(element, text) {
    // Writing the same text again would make screen readers repeat it.
    if (element.textContent !== text) element.textContent = text;
    element.hidden = text === "";
  }

  function showState(problem) {
    setText(connection, isPaused ? "Updates are paused" : problem ? "" : "Live");
    connection.title = `As of ${clock(updatedAt)}`;
    const age = `What you see is from ${clock(updatedAt)}. Trying again every ${intervalMs / 1000} s.`;
    setText(trouble, problem && !isPaused ? `${problem} ${age}` : "");
  }

  // Requests the page and shows its current content. Returns a sentence about what went wrong, "" if nothing did.
  async function update() {
    const headers = { Accept: "text/html", ...(etag && { "If-None-Match": etag }) };
    let response, text;
    try {
      response = await fetch(location.href, { headers, cache: "no-store", signal: AbortSignal.timeout(10000) });
      text = await response.text();
    } catch {
      return "The server cannot be reached.";
    }
    if (isPaused) return "";
    if (response.status !== 304) {
      const page = response.ok && new DOMParser().parseFromString(text, "text/html");
      const content = page && page.querySelector("[data-live]");
      if (!content && response.status === 401) return "You are not signed in any more: reload the page.";
      if (!content && response.status === 404) return "This is not there any more.";
      if (!content) return `The server answers with error ${response.status}.`;
      show(content);
      etag = response.headers.get("ETag");
    }
    updatedAt = new Date();
    return "";
  }

  function show(content) {
    const logsAtEnd = [...region.querySelectorAll("[data-follow]")].filter(isScrolledToEnd);
    Idiomorph.morph(region, content.childNodes, { morphStyle: "innerHTML" });
    logsAtEnd.forEach((log) => { log.scrollTop = log.scrollHeight; });
  }

  function isScrolledToEnd(log) {
    return log.scrollHeight > log.clientHeight && log.scrollHeight - log.scrollTop - log.clientHeight < 8;
  }

  async function updateAndRepeat() {
    clearTimeout(timer);
    if (isPaused || document.hidden || isRequesting) return;
    isRequesting = true;
    showState(await update());
    isRequesting = false;
    clearTimeout(timer);
    timer = setTimeout(updateAndRepeat, intervalMs);
  }

  pauseButton.addEventListener("click", () => {
    isPaused = !isPaused;
    pauseButton.textContent = isPaused ? "Go on" : "Pause";
    showState("");
    updateAndRepeat();
  });
  document.addEventListener("visibilitychange", updateAndRepeat);
  setText(pauseButton, "Pause");
  showState("");
  timer = setTimeout(updateAndRepeat, intervalMs);
})();
