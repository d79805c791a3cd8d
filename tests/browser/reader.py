"""A person at the web page, and what their browser recorded."""

from playwright.sync_api import ConsoleMessage, Locator, Page, Request

from controller.web.answering import REFRESH_SECONDS


class Reader:
    """One browser tab.

    `fetches` counts requests of the page's script, `foreign_requests` lists requests to other hosts, and
    `console_errors` what the console reported.
    """

    def __init__(self, page: Page, site: str) -> None:
        self.page = page
        self._site = site
        self.foreign_requests: list[str] = []
        self.console_errors: list[str] = []
        self.fetches = 0
        page.on("request", self._request)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.console_errors.append(str(error)))

    def open(self, path: str = "/") -> int:
        """Open a page and return the HTTP status."""
        answer = self.page.goto(path)
        assert answer is not None
        return answer.status

    def row(self, name: str) -> Locator:
        """Return the table row whose header contains `name`."""
        return self.page.get_by_role("row").filter(has=self.page.get_by_role("rowheader").filter(has_text=name))

    def section(self, heading: str) -> Locator:
        return self.page.get_by_role("region", name=heading, exact=True)

    def tab_to(self, target: Locator, limit: int = 30) -> None:
        """Press Tab until the target has the focus."""
        for _ in range(limit):
            if target.evaluate("node => node === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"not reached by {limit} tabs")

    def run_to_next_refresh(self) -> None:
        """Advance the page's clock until it has refreshed itself. Its script runs only once the page has loaded."""
        self.page.wait_for_load_state()
        self.page.clock.run_for(REFRESH_SECONDS * 1000)

    def _request(self, request: Request) -> None:
        self.fetches += request.resource_type == "fetch"  # the browser may also load the icon at any time
        if not request.url.startswith(f"{self._site}/"):
            self.foreign_requests.append(request.url)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.console_errors.append(message.text)
