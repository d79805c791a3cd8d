"""The web page, used by a person in a real browser."""

import json
import re
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from reconcile.decide.authority import Caller
from reconcile.decide.preconditions import Expected
from reconcile.runs.runner import Runner
from reconcile.triggers import holds
from reconcile.triggers.activation import deactivate_trigger, delete_trigger
from revisions.store import quarantines, run_orders, runs
from tests.browser.conftest import Site, profile
from tests.browser.reader import Reader
from tests.reconcile.scripted import ScriptedLauncher
from tests.waiting import PATIENCE
from tests.world import World, key

pytestmark = pytest.mark.xdist_group("browser")  # one worker: playwright's event loop disturbs other tests

BOTH_DATABASES = pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
CONTRAST = Path(__file__).with_name("contrast.js").read_text()
HOSTILE = "<script>document.title='injected'</script><img src=x onerror=alert(1)>"
TICK = "/triggers/acme/production/report/tick"
ONE_ATTEMPT: dict[str, Any] = {"retry": {"max_attempts": 1}}


def run_once(world: World, runner: Runner, launcher: ScriptedLauncher, error: str | None, log: bytes = b"") -> str:
    """Advance a minute, run the trigger's next run with this error, None for success, and return its id."""
    world.advance(minutes=1)
    world.resync()
    runner.run_pass()
    launcher.last.log.data = log
    if error is None:
        launcher.last.succeed(written=7)
    else:
        launcher.last.fail(error)
    runner.run_pass()
    return launcher.last.launch.run_id


@BOTH_DATABASES
def test_the_list_shows_every_important_fact(
    reader: Reader, world: World, runner: Runner, launcher: ScriptedLauncher
) -> None:
    """U-04: revision, next fire, last outcome, last error and the reason of inactivity, without a click."""
    world.create("tick", deactivate_after=2, tags=["client-7"], **ONE_ATTEMPT)
    world.create("quiet", schedule={"cron": "0 8 * * 1-5", "timezone": "Europe/Berlin"})
    world.deactivate("quiet", 1, "waiting for numbers")
    world.update("tick", 1, deactivate_after=2, description="more", **ONE_ATTEMPT)
    run_once(world, runner, launcher, "the disk is full")
    reader.open()
    tick, quiet = reader.row("tick"), reader.row("quiet")
    for text in ("active", "every 1m", "2 by ann, 60 s ago", "in 60 s", "2026-03-02 08:02:00 UTC", "the disk is full"):
        expect(tick).to_contain_text(text)
    expect(tick.get_by_role("link", name="failed")).to_be_visible()
    for text in ("inactive", "waiting for numbers", "cron 0 8 * * 1-5 Europe/Berlin", "nothing yet"):
        expect(quiet).to_contain_text(text)
    run_once(world, runner, launcher, "the disk is still full")
    reader.pass_interval()
    expect(tick).to_contain_text("too many failed runs in a row")
    expect(tick).to_contain_text("the disk is still full")


def test_pages_can_be_used_with_the_keyboard(
    reader: Reader, world: World, runner: Runner, launcher: ScriptedLauncher
) -> None:
    """U-04: Tab and Enter lead from the list to a trigger's revisions and runs, and to a run's log."""
    world.create(**ONE_ATTEMPT)
    world.update("tick", 1, description="nightly numbers", **ONE_ATTEMPT)
    run_once(world, runner, launcher, "no such table", b"reading\n\x1b[31mfailing\r\n")
    reader.open()
    page = reader.page
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    link = page.get_by_role("link", name="tick", exact=True)
    reader.tab_to(link)
    assert link.evaluate("node => getComputedStyle(node).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{TICK}")
    expect(page.get_by_role("heading", level=1)).to_have_text("tick active")
    revisions = reader.section("Revisions").get_by_role("row")
    expect(revisions).to_have_count(3)
    expect(revisions.nth(1)).to_have_text(re.compile(r"2\s+deploy\s+ann\s+60 s ago"))
    run = reader.section("Runs").get_by_role("row").nth(1)
    for text in ("failed", "2026-03-02 08:01:00 UTC", "0.0 s", "1", "no such table"):
        expect(run).to_contain_text(text)
    expect(reader.section("Upcoming fires").get_by_role("row")).to_have_count(6)
    reader.tab_to(run.get_by_role("link"))
    page.keyboard.press("Enter")
    expect(reader.section("Log")).to_contain_text("reading\n␛[31mfailing")
    expect(reader.section("Output")).to_contain_text("It answered nothing.")


def test_a_deploy_appears_without_a_reload(reader: Reader, world: World) -> None:
    """U-04: the page updates itself; focus and scroll position stay."""
    world.create()
    reader.open(TICK)
    page = reader.page
    page.set_viewport_size({"width": 800, "height": 300})
    page.evaluate("window.loadedOnce = true")
    spec = reader.section("Spec").locator("pre")
    spec.focus()
    position = page.evaluate("scrollY")
    assert position > 0
    world.update("tick", 1, description="with a description now")
    reader.pass_interval()
    expect(reader.section("Revisions").get_by_role("row")).to_have_count(3)
    expect(spec).to_contain_text("with a description now")
    expect(spec).to_be_focused()
    assert page.evaluate("window.loadedOnce")
    assert page.evaluate("scrollY") >= position
    world.deactivate("tick", 2, "enough")
    reader.pass_interval()
    expect(page.get_by_text("Not active: enough.")).to_be_visible()
    expect(spec).to_be_focused()


def test_the_focused_row_stays_when_rows_are_added(reader: Reader, world: World) -> None:
    """U-04: rows are matched by id, so focus and selection stay with the trigger they belong to."""
    world.create("tick")
    world.create("tock")
    reader.open()
    page = reader.page
    link = page.get_by_role("link", name="tick", exact=True)
    link.focus()
    page.evaluate("getSelection().selectAllChildren(document.activeElement)")
    world.create("alpha")
    world.create("tide")
    world.update("tick", 1, description="changed meanwhile")
    delete_trigger(world.database, world.observations, key("tock"), Expected(revision=1), Caller("bob"))
    reader.pass_interval()
    expect(reader.row("alpha")).to_be_visible()
    expect(reader.row("tide")).to_be_visible()
    expect(reader.row("tock")).to_have_count(0)
    expect(reader.row("tick")).to_contain_text("2 by ann")
    expect(link).to_be_focused()
    assert page.evaluate("getSelection().toString()") == "tick"


def test_a_log_on_screen_follows_its_end(
    reader: Reader, world: World, runner: Runner, launcher: ScriptedLauncher
) -> None:
    """U-04, X-17: a log scrolled to its end stays at the end when it grows; one scrolled elsewhere does not move."""
    world.create()
    world.advance(minutes=1)
    world.resync()
    runner.run_pass()

    def print_lines(number: int) -> None:
        launcher.last.log.data += b"line\n" * number
        world.advance(seconds=2)
        runner.run_pass()

    print_lines(200)
    reader.open(f"/runs/{launcher.last.launch.run_id}")
    log = reader.page.locator("pre.log")
    log.evaluate("log => { log.scrollTop = log.scrollHeight }")
    print_lines(100)
    reader.pass_interval()
    expect(log).to_have_text(re.compile(r"^(line\s*){300}$"))
    assert log.evaluate("log => log.scrollHeight - log.scrollTop - log.clientHeight") < 2
    log.evaluate("log => { log.scrollTop = 100 }")
    print_lines(100)
    reader.pass_interval()
    expect(log).to_have_text(re.compile(r"^(line\s*){400}$"))
    assert log.evaluate("log => log.scrollTop") == 100


def test_an_unchanged_page_is_not_sent_again(reader: Reader, world: World) -> None:
    """U-04: the script sends the ETag of the content on screen and is answered 304."""
    world.create()
    reader.open()
    status = reader.page.get_by_role("status")
    expect(status).to_have_attribute("title", "As of 08:00:01 UTC")
    with reader.page.expect_response(lambda answer: answer.status == 200):
        reader.pass_interval()
    expect(status).to_have_attribute("title", "As of 08:00:04 UTC")
    with reader.page.expect_response(lambda answer: answer.status == 304):
        reader.pass_interval()
    expect(status).to_have_attribute("title", "As of 08:00:07 UTC")
    expect(status).to_have_text("Live")
    expect(reader.row("tick")).to_be_visible()


def test_a_hidden_page_sends_no_requests(reader: Reader, world: World) -> None:
    """U-04: a hidden or paused page updates itself as soon as it is shown or resumed."""
    world.create()
    reader.open()
    page = reader.page
    _hide(page, True)
    reader.pass_interval()
    reader.pass_interval()
    assert reader.updates == 0
    world.update("tick", 1, description="seen later")
    with page.expect_response("**/"):
        _hide(page, False)
    expect(reader.row("tick")).to_contain_text("2 by ann")
    assert reader.updates == 1
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status")).to_have_text("Updates are paused")
    world.deactivate("tick", 2)
    reader.pass_interval()
    assert reader.updates == 1
    page.get_by_role("button", name="Go on").click()
    expect(reader.row("tick")).to_contain_text("no reason given")


def _hide(page: Page, hidden: bool) -> None:
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_an_unreachable_server_is_reported(reader: Reader, site: Site, world: World) -> None:
    """U-04: the content stays, with its age, and updates go on when the server is back."""
    world.create()
    reader.open()
    site.stop()
    reader.pass_interval()
    alert = reader.page.get_by_role("alert")
    expect(alert).to_contain_text("The server cannot be reached. What you see is from 08:00:01 UTC.")
    expect(reader.row("tick")).to_be_visible()
    site.start()
    world.update("tick", 1, description="new")
    reader.pass_interval()
    expect(alert).to_be_hidden()
    expect(reader.row("tick")).to_contain_text("2 by ann")
    assert all("ERR_CONNECTION_REFUSED" in message for message in reader.console_messages)
    reader.console_messages.clear()


def test_text_of_users_is_never_markup(
    reader: Reader, world: World, runner: Runner, launcher: ScriptedLauncher
) -> None:
    """U-04: description, input, tags, errors, output, logs and reasons are escaped."""
    world.create(description=HOSTILE, input={"name": HOSTILE}, tags=[HOSTILE], **ONE_ATTEMPT)
    run_id = run_once(world, runner, launcher, HOSTILE, HOSTILE.encode())
    deactivate_trigger(world.database, world.observations, key("tick"), Expected(revision=1), Caller(HOSTILE, HOSTILE))
    occurrences = {"/": 4, TICK: 10, f"/runs/{run_id}": 2, f"/?tag={HOSTILE}": 5, "/?project=%3Cscript%3E1": 0}
    for path, least in occurrences.items():
        reader.open(path)
        page = reader.page
        assert page.title() != "injected"
        assert page.locator("main script, main img").count() == 0
        assert page.content().count("&lt;script&gt;document.title") >= least, path
    assert reader.open("/triggers/acme/production/report/%3Cscript%3E1") == 422
    assert reader.page.locator("main script").count() == 0
    assert ["422" in message for message in reader.console_messages] == [True]
    reader.console_messages.clear()


def test_inactive_and_deleted_triggers_show_the_reason(reader: Reader, world: World) -> None:
    """R-08, R-20, U-04: paused, finished and deleted triggers show the end, the reason and the actor."""
    world.create("paused")
    world.deactivate("paused", 1, "office is closed", until=world.clock_now().replace(hour=20))
    world.create("once", schedule={"at": "2026-03-02T08:00:30Z"})
    world.create("gone")
    delete_trigger(
        world.database, world.observations, key("gone"), Expected(revision=1), Caller("bob", "replaced by tick")
    )
    world.advance(minutes=1)
    world.resync()
    notice = reader.page.locator(".notice")
    notices = {
        "paused": "Paused: until 2026-03-02 20:00:00 UTC (in 11 h), office is closed. Last changed by ann 60 s ago",
        "once": "Not active: completed: its schedule has no fire left. Last changed by system now",
        "gone": "Deleted: replaced by tick. Last changed by bob",
    }
    for name, text in notices.items():
        assert reader.open(TICK.replace("tick", name)) == 200
        expect(notice).to_contain_text(text)
    reader.open()
    expect(reader.row("gone")).to_have_count(0)
    expect(reader.row("paused")).to_contain_text("office is closed")


def test_an_active_trigger_that_cannot_start_shows_the_reason(reader: Reader, world: World) -> None:
    """L-13, S-13, U-04: a quarantine with its error, a freeze with its owner."""
    for name in ("bad", "good"):
        world.create(name)
    with world.database.write() as connection:
        quarantines.put(connection, world.id("bad"), "every: '1 fortnight'", world.clock.now(connection))
    until = world.clock_now().replace(hour=20)
    holds.freeze(world.database, world.observations, "acme", until, Caller("ann", "stocktaking"))
    reader.open()
    expect(reader.row("bad")).to_contain_text("quarantined")
    expect(reader.row("bad")).to_contain_text("it cannot be decided: every: '1 fortnight'")
    expect(reader.row("good")).to_contain_text("frozen")
    expect(reader.row("good")).to_contain_text("by ann: stocktaking")
    reader.open(TICK.replace("tick", "bad"))
    expect(reader.page.locator(".notice")).to_contain_text("Quarantined: until 2026-03-02 08:00:30 UTC")


def test_skipped_occurrences_show_the_reason(reader: Reader, world: World) -> None:
    """L-06, U-04: a missed range is one row with the number of occurrences and the reason."""
    world.create(schedule={"every": "1s"})
    world.advance(minutes=5)
    world.resync()
    reader.open(TICK)
    skip = reader.section("Skipped occurrences").get_by_role("row").nth(1)
    for text in ("missed", "2026-03-02 08:00:01 UTC", "to 2026-03-02 08:04:59 UTC", "299", "catch-up leaves it out"):
        expect(skip).to_contain_text(text)


def test_each_attempt_has_its_log(reader: Reader, world: World, runner: Runner, launcher: ScriptedLauncher) -> None:
    """X-17, U-04: the newest attempt is shown, links lead to earlier ones; input and output are below."""
    world.create(input={"region": "emea"})
    run_id = run_once(world, runner, launcher, "broken", b"first try")
    assert run_once(world, runner, launcher, None, b"second try " + b"x" * 100_000 + b" end") == run_id
    reader.open(f"/runs/{run_id}")
    expect(reader.page.get_by_role("heading", level=1)).to_contain_text("succeeded")
    log = reader.page.locator("pre.log")
    expect(log).to_contain_text("x end")
    assert len(log.inner_text()) == 64 * 1024
    expect(reader.page.get_by_role("link", name="All that was kept")).to_be_visible()
    expect(reader.section("Input")).to_contain_text('"region": "emea"')
    expect(reader.section("Output")).to_contain_text('"written": 7')
    reader.page.get_by_role("link", name="Attempt 1").click()
    expect(log).to_have_text("first try")


def test_the_list_has_filters_and_pages(reader: Reader, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """U-04: filters by project, tag and state; the links to further pages keep the filter."""
    monkeypatch.setattr("controller.web.page_data.TRIGGERS", 3)
    for number in range(5):
        world.create(f"t{number}", tags=["many"])
    world.create("other")
    world.deactivate("other", 1)
    reader.open()
    page = reader.page
    rows = page.get_by_role("row")
    expect(rows).to_have_count(4)
    page.get_by_label("Tag").fill("many")
    page.keyboard.press("Enter")
    expect(reader.row("other")).to_have_count(0)
    page.get_by_role("link", name="More triggers").click()
    expect(rows).to_have_count(3)
    assert "tag=many" in page.url
    page.get_by_role("link", name="Back to the first").click()
    expect(rows).to_have_count(4)
    page.get_by_role("link", name="Show all").click()
    page.get_by_label("State").select_option("not active")
    page.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(2)
    expect(page.get_by_label("State")).to_have_value("false")
    page.get_by_label("Project").fill("nobody")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()


def test_empty_pages_say_what_to_do(reader: Reader, world: World, site: Site) -> None:
    """U-04: the commands that deploy and fire; a deployed trigger appears without a reload."""
    reader.open()
    expect(reader.page.get_by_text(f"triggerctl --server {site.url} deploy trigger.yaml")).to_be_visible()
    world.create()
    reader.pass_interval()
    expect(reader.row("tick")).to_be_visible()
    reader.open(TICK)
    command = f"triggerctl --server {site.url} fire acme/production/report/tick"
    expect(reader.section("Runs").get_by_text(command)).to_be_visible()


def test_errors_are_pages(reader: Reader, site: Site, world: World) -> None:
    """U-04: browsers get a page, programs the problem document."""
    for path in (TICK, "/runs/01HZZZZZZZZZZZZZZZZZZZZZZZ", "/nowhere"):
        assert reader.open(path) == 404
        expect(reader.page.get_by_role("heading", name="There is no such thing")).to_be_visible()
        expect(reader.page.get_by_role("link", name="All triggers")).to_be_visible()
    assert reader.open("/?cursor=zzz") == 422
    reader.console_messages.clear()
    for path in (TICK, f"/api/v1{TICK}"):
        accept = "text/html" if path.startswith("/api") else "*/*"
        answer = httpx.get(site.url + path, headers={"Accept": accept}, timeout=PATIENCE)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1280)])
def test_pages_are_readable_in_light_and_dark_on_phones_and_screens(
    scheme: Literal["light", "dark"],
    width: int,
    browser: Browser,
    site: Site,
    world: World,
    runner: Runner,
    launcher: ScriptedLauncher,
) -> None:
    """U-04: contrast AA, no horizontal scrolling, complete without JavaScript. Colours do not depend on the width."""
    world.create(description="a" * 300, tags=["t" * 60], **ONE_ATTEMPT)
    world.create("resting")
    world.deactivate("resting", 1, "r" * 200)
    run_id = run_once(world, runner, launcher, "e" * 300, b"l" * 500)
    with profile(browser, site, width, color_scheme=scheme, java_script_enabled=False) as context:
        page = context.new_page()
        for path in ("/", TICK, TICK.replace("tick", "resting"), f"/runs/{run_id}"):
            page.goto(path)
            expect(page.get_by_role("main")).to_contain_text(("e" * 300, "r" * 200)["resting" in path])
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
            assert page.evaluate(CONTRAST) == [], path


def test_pages_and_files_have_strict_headers(site: Site, world: World) -> None:
    """U-04: nothing from other hosts, nothing inline, no frames. Pages are not in the API's description."""
    world.create()
    static = {
        "/static/page.css": "text/css; charset=utf-8",
        "/static/live.js": "text/javascript; charset=utf-8",
        "/static/idiomorph-0.8.0.min.js": "text/javascript; charset=utf-8",
        "/static/icon.svg": "image/svg+xml",
    }
    for path, media_type in {"/": "text/html; charset=utf-8", TICK: "text/html; charset=utf-8", **static}.items():
        answer = httpx.get(site.url + path, headers={"Accept": "text/html"}, timeout=PATIENCE)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == media_type
        assert answer.headers["content-security-policy"].startswith("default-src 'self';")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        again = httpx.get(site.url + path, headers={"If-None-Match": answer.headers["etag"]}, timeout=PATIENCE)
        assert (again.status_code, again.content) == (304, b"")
    assert "/" not in httpx.get(f"{site.url}/openapi.json", timeout=PATIENCE).json()["paths"]


def test_a_parked_run_shows_how_to_approve_it(reader: Reader, world: World) -> None:
    """X-14, U-04: on the run's page; the trigger's page says that each run needs an approval."""
    world.create(requires_approval=True)
    world.advance(minutes=1)
    world.resync()
    [run] = world.runs()
    reader.open(f"/runs/{run.id}")
    expect(reader.section("Log")).to_contain_text(f"It waits for an approval: triggerctl runs approve {run.id}")
    reader.open(TICK)
    expect(reader.section("Status")).to_contain_text("each run waits for triggerctl runs approve")


def test_a_cancelled_run_shows_who_cancelled_it(reader: Reader, world: World) -> None:
    """X-11, U-04: beside the time of the request."""
    world.create()
    world.fire(key("tick"), None, Caller("ann"), None)
    [run] = world.runs()
    with world.database.write() as connection:
        run_orders.request_cancel(connection, run.id, world.clock.now(connection), "bob")
    reader.open(f"/runs/{run.id}")
    expect(reader.section("Facts")).to_contain_text("by bob")


def test_pending_fires_and_runs_are_shown(reader: Reader, world: World) -> None:
    """S-15, X-11, U-04: the instant of an `in`, and a run by hand that waits for a runner, with its input."""
    world.create(schedule={"in": "48h"})
    world.fire(key("tick"), {"a": [1]}, Caller("ann"), None)
    reader.open(TICK)
    expect(reader.section("Upcoming fires")).to_contain_text("2026-03-04 08:00:00 UTC")
    expect(reader.section("Runs").get_by_role("row").nth(1)).to_contain_text("manual")
    with world.database.read() as connection:
        [run] = runs.page(connection, None, 2)
    reader.open(f"/runs/{run.id}")
    expect(reader.section("Log")).to_contain_text("It has not begun yet.")
    assert json.loads(reader.section("Input").locator("pre").inner_text()) == {"a": [1]}
