"""What a person does at the page, and what their browser saw."""

from playwright.sync_api import ConsoleMessage, Locator, Page, Request

from controller.web.answering import REFRESH_SECONDS


class Reader:
    """One tab. `asked` counts what the page's script asks, `strangers` all that was asked elsewhere, by whomever.

    `complaints` is what the console said.
    """

    def __init__(self, page: Page, site: str) -> None:
        self.page = page
        self._site = site
        self.strangers: list[str] = []
        self.complaints: list[str] = []
        self.asked = 0
        page.on("request", self._request)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, path: str = "/") -> int:
        """Goes to a page and answers the status."""
        answer = self.page.goto(path)
        assert answer is not None
        return answer.status

    def row(self, name: str) -> Locator:
        """The row of a table that begins with this."""
        return self.page.get_by_role("row").filter(has=self.page.get_by_role("rowheader").filter(has_text=name))

    def section(self, heading: str) -> Locator:
        return self.page.get_by_role("region", name=heading, exact=True)

    def tab_to(self, target: Locator, most: int = 30) -> None:
        """Presses Tab until the target has the focus."""
        for _ in range(most):
            if target.evaluate("node => node === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"not reached by {most} tabs")

    def wait_a_turn(self) -> None:
        """The page's time goes on until it has asked again; what asks is there once the page is loaded."""
        self.page.wait_for_load_state()
        self.page.clock.run_for(REFRESH_SECONDS * 1000)

    def _request(self, request: Request) -> None:
        self.asked += request.resource_type == "fetch"  # the icon comes when the browser pleases
        if not request.url.startswith(f"{self._site}/"):
            self.strangers.append(request.url)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)
