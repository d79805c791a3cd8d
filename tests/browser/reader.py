"""A person's browser tab, and a record of its requests and of its console."""

from playwright.sync_api import ConsoleMessage, Locator, Page, Request

from controller.web.rendering import REFRESH_SECONDS


class Reader:
    """One tab.

    `updates` counts the requests of the page's script, `foreign_requests` holds the addresses outside the site that
    were requested, and `console_messages` the errors and warnings in the console.
    """

    def __init__(self, page: Page, site: str) -> None:
        self.page = page
        self._site = site
        self.foreign_requests: list[str] = []
        self.console_messages: list[str] = []
        self.updates = 0
        page.on("request", self._record_request)
        page.on("console", self._record_console)
        page.on("pageerror", lambda error: self.console_messages.append(str(error)))

    def open(self, path: str = "/") -> int:
        """Open a page and return its HTTP status."""
        response = self.page.goto(path)
        assert response is not None
        return response.status

    def row(self, name: str) -> Locator:
        """Return the row of a table whose header cell contains a text."""
        return self.page.get_by_role("row").filter(has=self.page.get_by_role("rowheader").filter(has_text=name))

    def section(self, heading: str) -> Locator:
        """Return the section with a heading."""
        return self.page.get_by_role("region", name=heading, exact=True)

    def tab_to(self, target: Locator, most: int = 30) -> None:
        """Press Tab until the target has the focus."""
        for _ in range(most):
            if target.evaluate("node => node === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"{most} times Tab did not reach the target")

    def pass_interval(self) -> None:
        """Advance the page's clock by one refresh interval; the script has started once the page is loaded."""
        self.page.wait_for_load_state()
        self.page.clock.run_for(REFRESH_SECONDS * 1000)

    def _record_request(self, request: Request) -> None:
        self.updates += request.resource_type == "fetch"  # the browser requests the icon at any time
        if not request.url.startswith(f"{self._site}/"):
            self.foreign_requests.append(request.url)

    def _record_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.console_messages.append(message.text)
