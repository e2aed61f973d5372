"""The studio in a real browser, on a real server with models that take seconds to train."""

import re
import shutil
from collections.abc import Iterator

import pytest
import torch

from unmask.core import Cosine, Geometric, Linear, Polynomial, cosine_grid, uniform_grid

from .conftest import serving

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium found: install the system's package")
expect = sync_api.expect
TEXT = "aAbBcCdDaAbBcCdD"


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield found
        found.close()


class Watched:
    """A page with its console errors and requests."""

    def __init__(self, page, address):
        self.page, self.address = page, address
        self.errors, self.asked, self.refusals = [], [], False
        page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.set_default_timeout(20_000)

    def open(self, tab="write", model=None):
        self.page.goto(f"{self.address}/#{tab}")
        self.page.wait_for_selector("html[data-ready]")
        if model is not None:
            self.page.locator(f"#{tab}").get_by_label("Model", exact=True).select_option(model)
        return self.page.locator(f"#{tab}")

    def check(self):
        """No errors, except the browser's own message for a refused request where one is expected."""
        wrong = [text for text in self.errors if not (self.refusals and text.startswith("Failed to load resource"))]
        assert not wrong
        assert self.asked
        assert all(url.startswith(self.address) for url in self.asked)


@pytest.fixture
def context_options():
    return {"viewport": {"width": 1280, "height": 800}, "permissions": ["clipboard-read", "clipboard-write"]}


@pytest.fixture
def watched(browser, address, context_options):
    context = browser.new_context(**context_options)
    found = Watched(context.new_page(), address)
    yield found
    found.check()
    context.close()


def texts(view):
    """The text of each token; None where it is masked."""
    return view.evaluate(
        "e => [...e.querySelectorAll('.token')].map(t => t.matches('.masked, .marked') ? null : t.textContent)"
    )


def write(tab, text=TEXT):
    """Type a text, wait until it is tokenized, and switch to selecting single tokens."""
    tab.get_by_role("button", name="Clear masks").click()
    tab.get_by_label("Text", exact=True).fill(text)
    expect(tab.locator(".board .token")).to_have_count(len(text))
    tab.get_by_label("whole words").uncheck()


def board(tab, *places):
    for place in places:
        tab.locator(".board .token").nth(place).click()


def run(tab):
    """Run and wait for the end."""
    tab.locator(".go .primary").click()
    finished(tab)


def finished(tab):
    expect(tab.locator(".runner .note")).to_contain_text("network calls")
    expect(tab.get_by_role("button", name="Play", exact=True)).to_be_visible()


def one_by_one(tab):
    """Select a sampler that reveals one token per step, and set a seed."""
    tab.get_by_label("Sampler", exact=True).select_option("first-hitting")
    tab.get_by_label("Seed", exact=True).fill("1")


def slide(tab, frame):
    tab.get_by_label("Frame of the trajectory").fill(str(frame))


def test_tokens_appear_live_over_several_steps(watched):
    tab = watched.open(model="letters")
    write(tab)
    board(tab, 0, 2, 5, 6, 9, 11, 12, 15)
    one_by_one(tab)
    expect(tab.locator(".told")).to_contain_text("8 of 16 tokens masked")
    watched.page.evaluate(
        """() => { window.seen = [];
        new MutationObserver(() => {
          const card = document.querySelector('.card');
          if (card) window.seen.push(card.querySelectorAll('.token.masked').length);
        }).observe(document.querySelector('#write'), { subtree: true, childList: true, attributes: true }); }"""
    )
    run(tab)
    seen = list(dict.fromkeys(watched.page.evaluate("window.seen")))
    assert seen == list(range(8, -1, -1))
    expect(tab.locator(".card")).to_have_count(2)
    shown = texts(tab.locator(".card").first)
    assert all(shown[place] == TEXT[place] for place in (1, 3, 4, 7, 8, 10, 13, 14))
    colours = (
        tab.locator(".card")
        .first.locator(".token.new")
        .evaluate_all("all => all.map(e => e.style.getPropertyValue('--step'))")
    )
    assert len(set(colours)) == 8


def test_scrubbing_goes_back_and_forward(watched):
    tab = watched.open(model="letters")
    write(tab)
    board(tab, 0, 2, 5, 6, 9, 11)
    one_by_one(tab)
    run(tab)
    card, slider = tab.locator(".card").first, tab.get_by_label("Frame of the trajectory")
    end, last = texts(card), 6
    expect(slider).to_have_attribute("max", str(last))
    for frame in (0, 1, 4, 2, last):
        slide(tab, frame)
        shown = texts(card)
        assert shown.count(None) == last - frame
        assert all(text in (None, right) for text, right in zip(shown, end, strict=True))
    tab.get_by_role("button", name="Previous frame").click()
    expect(slider).to_have_value(str(last - 1))
    tab.get_by_role("button", name="Previous frame").press("ArrowRight")
    expect(slider).to_have_value(str(last))
    tab.get_by_role("button", name="Play", exact=True).click()
    expect(tab.get_by_role("button", name="Play", exact=True)).to_be_visible()
    assert texts(card) == end


def test_hover_shows_alternatives_that_were_possible(watched):
    tab = watched.open(model="letters")
    write(tab)
    board(tab, 1, 4)
    run(tab)
    token = tab.locator(".card").first.locator(".token").nth(1)
    with watched.page.expect_request("**/api/alternatives") as asked:
        token.hover()
    tokens, place = (asked.value.post_data_json[name] for name in ("tokens", "place"))
    assert place == 1
    assert tokens[1] is None
    bubble = watched.page.locator("#bubble")
    expect(bubble).to_contain_text("Chosen at step")
    chosen = bubble.locator("li.chosen code")
    expect(chosen).to_have_text(token.inner_text())
    shares = [float(text.strip("<% ")) for text in bubble.locator(".value").all_inner_texts()]
    assert 50 < sum(shares) <= 101
    watched.page.mouse.move(5, 5)
    expect(bubble).to_be_hidden()
    token.focus()
    watched.page.keyboard.press("ArrowLeft")
    expect(bubble).to_contain_text("Given")


def test_regenerating_changes_only_what_was_masked_again(watched):
    tab = watched.open(model="letters")
    write(tab)
    board(tab, *range(0, 16, 2))
    run(tab)
    card = tab.locator(".card").first
    before, other = texts(card), texts(tab.locator(".card").nth(1))
    for place in (0, 4, 8):
        card.locator(".token").nth(place).click()
    assert [i for i, text in enumerate(texts(card)) if text is None] == [0, 4, 8]
    card.get_by_role("button", name="Regenerate 3 tokens").click()
    finished(tab)
    after = texts(card)
    assert None not in after
    assert [text for i, text in enumerate(after) if i not in (0, 4, 8)] == [
        text for i, text in enumerate(before) if i not in (0, 4, 8)
    ]
    assert texts(tab.locator(".card").nth(1)) == other
    tab.get_by_role("button", name="Undo").click()
    assert texts(card) == before


def test_variants_are_pinned_copied_continued_and_deleted(watched):
    tab = watched.open(model="letters")
    write(tab)
    board(tab, *range(0, 16, 2))
    run(tab)
    tab.locator(".card").first.get_by_role("button", name="Pin").click()
    kept = texts(tab.locator(".card").first)
    tab.get_by_label("Variants", exact=True).fill("1")
    run(tab)
    expect(tab.locator(".card")).to_have_count(2)
    assert texts(tab.locator(".card").first) == kept
    tab.locator(".card").first.get_by_role("button", name="Copy").click()
    expect(tab.get_by_role("button", name="Copied")).to_be_visible()
    assert watched.page.evaluate("navigator.clipboard.readText()") == "".join(kept)
    tab.locator(".card").first.get_by_role("button", name="Edit").click()
    expect(tab.locator(".board .marked")).to_have_count(0)
    expect(tab.get_by_label("Text", exact=True)).to_have_value("".join(kept))
    assert texts(tab.locator(".board")) == kept
    tab.locator(".card").nth(1).get_by_role("button", name="Delete").click()
    expect(tab.locator(".card")).to_have_count(1)
    tab.get_by_role("button", name="Undo").click()
    expect(tab.locator(".card")).to_have_count(2)


def test_ways_to_mask(watched):
    tab = watched.open(model="subwords")
    tab.get_by_role("button", name="Clear masks").click()
    area, told = tab.get_by_label("Text", exact=True), tab.locator(".told")
    area.fill("the cat sat on the mat and the ____ sat.")
    expect(told).to_have_text(re.compile("^1 of "))
    tab.get_by_role("button", name="Append").click()
    expect(told).to_have_text(re.compile("^25 of "))
    tab.get_by_role("button", name="Clear masks").click()
    expect(told).to_have_text(re.compile("^1 of "))
    first, third = tab.locator(".board .token").nth(0), tab.locator(".board .token").nth(2)
    start, end = first.bounding_box(), third.bounding_box()
    watched.page.mouse.move(start["x"] + 4, start["y"] + 8)
    watched.page.mouse.down()
    watched.page.mouse.move(end["x"] + end["width"] - 4, end["y"] + 8, steps=5)
    watched.page.mouse.up()
    assert texts(tab.locator(".board"))[:3] == [None] * 3
    tab.get_by_role("button", name="Clear masks").click()
    tab.get_by_role("button", name="Every").click()
    assert sum(text is None for text in texts(tab.locator(".board"))) >= 3
    area.fill("the cat sat on the mat and the dog")
    tab.get_by_role("button", name="Random").click()
    expect(told).to_have_text(re.compile("^[3-9] of "))


def test_keyboard_alone_is_enough(watched):
    tab = watched.open(model="letters")
    press = watched.page.keyboard.press
    tab.get_by_label("Text", exact=True).focus()
    press("Control+a")
    watched.page.keyboard.type("aAbBcCdD")
    expect(tab.locator(".board .token.given")).to_have_count(8)
    tab.get_by_role("button", name="Clear masks").focus()
    press("Enter")
    tab.get_by_label("whole words").focus()
    press("Space")
    press("Tab")
    assert watched.page.evaluate("document.activeElement.getAttribute('role')") == "option"
    press("Home")
    press("Space")
    press("ArrowRight")
    press("Shift+ArrowRight")
    assert [i for i, text in enumerate(texts(tab.locator(".board"))) if text is None] == [0, 2]
    press("Control+Enter")
    finished(tab)
    expect(tab.locator(".card")).to_have_count(2)
    assert texts(tab.locator(".card").first)[3:] == list("BcCdD")
    press("Control+z")
    expect(tab.locator(".card")).to_have_count(0)


def test_escape_stops_and_keeps_what_was_revealed(watched):
    tab = watched.open(model="letters")
    tab.get_by_role("spinbutton", name="Number of tokens").fill("1200")
    tab.get_by_role("button", name="Append").click()
    tab.get_by_label("Steps", exact=True).fill("1000")
    tab.get_by_label("Text", exact=True).press("Control+Enter")
    expect(tab.locator(".card").first.locator(".token.new").first).to_be_visible()
    watched.page.keyboard.press("Escape")
    expect(tab.locator(".runner .note")).to_contain_text("stopped after")
    expect(tab.locator(".card").first.locator(".token.masked").first).to_be_visible()
    expect(watched.page.locator("#error")).to_be_hidden()


def test_numbers_that_cannot_be_sent_as_they_are_are_refused(watched):
    """JavaScript would round a large seed, and zero variants must not become one."""
    watched.refusals = True
    tab, error = watched.open(model="letters"), watched.page.locator("#error")
    write(tab)
    board(tab, 0, 2)
    for label, wrong, right, said in (
        ("Seed", "9007199254740993", "3", "this seed is too large for a browser: got 9007199254740993, allowed:"),
        ("Variants", "0", "1", "n: got 0, allowed: greater than or equal to 1"),
    ):
        tab.get_by_label(label, exact=True).fill(wrong)
        tab.get_by_label("Text", exact=True).press("Control+Enter")
        expect(error).to_contain_text(said)
        tab.get_by_label(label, exact=True).fill(right)
    run(tab)
    expect(error).to_be_hidden()


def test_a_failed_run_takes_back_itself_and_nothing_else(watched):
    """What was done while it ran stays, and so does its undo; a stream that breaks off is a failure, too."""
    watched.refusals = True
    tab, error = watched.open(model="letters"), watched.page.locator("#error")
    write(tab)
    board(tab, 0, 2)
    run(tab)
    before, waiting = texts(tab.locator(".results")), []
    watched.page.route("**/api/trajectory", lambda route: waiting.append(route))
    tab.locator(".go .primary").click()
    expect(tab.locator(".go .primary")).to_contain_text("Stop")
    tab.get_by_role("button", name="Mask all").click()
    expect(tab.locator(".told")).to_contain_text("16 of 16 tokens masked")
    waiting.pop().fulfill(status=429, json={"error": {"message": "too many requests are waiting"}})
    expect(error).to_contain_text("too many requests are waiting")
    assert texts(tab.locator(".results")) == before
    tab.get_by_role("button", name="Undo").click()
    expect(tab.locator(".told")).to_contain_text("2 of 16 tokens masked")
    tab.locator(".go .primary").click()
    expect(tab.locator(".go .primary")).to_contain_text("Stop")
    start = 'event: start\ndata: {"seed": 1, "samples": 2, "masked": 2}\n\n'
    waiting.pop().fulfill(status=200, body=start, content_type="text/event-stream")
    expect(error).to_contain_text("the connection to the server was lost before the end")
    assert texts(tab.locator(".results")) == before


def test_more_tokens_than_the_server_takes_are_refused(watched):
    tab = watched.open(model="letters")
    write(tab)
    tab.get_by_label("Number of tokens").fill("10000000000")
    tab.get_by_role("button", name="Append").click()
    expect(watched.page.locator("#error")).to_contain_text("too many tokens: got 10000000000, allowed: at most ")
    expect(tab.locator(".told")).to_contain_text("of 16 tokens masked")


def test_a_drawing_that_cannot_be_sent_says_so(watched):
    tab = watched.open("draw")
    tab.get_by_label("Seed", exact=True).fill("9007199254740993")
    tab.locator(".go .primary").click()
    expect(watched.page.locator("#error")).to_contain_text("this seed is too large for a browser")
    tab.get_by_label("Seed", exact=True).fill("3")
    run(tab)


def test_undo_brings_the_model_back_with_what_is_said_of_it(watched):
    tab = watched.open(model="letters")
    write(tab)
    board(tab, 0, 2)
    run(tab)
    description = tab.locator(".side .help").first
    before = description.text_content()
    tab.get_by_label("Model", exact=True).select_option("subwords")
    expect(description).not_to_have_text(before)
    tab.get_by_role("button", name="Undo").click()
    expect(tab.get_by_label("Model", exact=True)).to_have_value("letters")
    expect(description).to_have_text(before)


def test_measuring_again_waits_for_the_second_answer(watched):
    tab = watched.open("surprise", model="letters")
    answers = []
    watched.page.route("**/api/score", lambda route: answers.append(route))
    tab.get_by_label("Text", exact=True).fill("aAbB")
    measure = tab.get_by_role("button", name="Measure")
    for number in (1, 2):
        with watched.page.expect_request("**/api/score"):
            watched.page.keyboard.press("Control+Enter")
        expect(measure).to_be_disabled()
        assert len(answers) == number
    watched.page.wait_for_timeout(200)  # by then the first request, which was cancelled, has ended
    expect(measure).to_be_disabled()
    answers[1].continue_()
    expect(tab.locator(".hot")).to_have_count(4)
    expect(measure).to_be_enabled()


def test_a_character_of_several_tokens_stands_with_its_last_one(watched):
    tab = watched.open("surprise", model="subwords")
    tab.get_by_label("Text", exact=True).fill("é")
    tab.get_by_role("button", name="Measure").click()
    expect(tab.locator(".hot")).to_have_count(2)
    assert texts(tab.locator(".heat")) == ["…", "é"]
    expect(tab.locator(".hot").first).to_have_attribute("aria-label", re.compile(r"^part of a character, [\d.]+ ±"))


def test_heat_map_has_bits_for_every_token(watched):
    tab = watched.open("surprise", model="letters")
    tab.get_by_label("Text", exact=True).fill("aAbBcCdDaB")
    tab.get_by_role("button", name="Measure").click()
    expect(tab.locator(".hot")).to_have_count(10)
    expect(tab.locator(".figures")).to_contain_text(re.compile(r"[\d.]+ ± [\d.]+\s*bits for 10 tokens"))
    tab.locator(".hot").nth(9).hover()
    expect(watched.page.locator("#bubble")).to_contain_text(re.compile(r"B [\d.]+ ± [\d.]+ bits"))
    shares = tab.locator(".hot").evaluate_all("all => all.map(e => parseFloat(e.style.getPropertyValue('--share')))")
    assert max(shares) == 100
    assert shares[9] > shares[1], "a B after an a is a surprise"


def canvas(locator):
    """The pixels of a canvas: red values."""
    script = "c => [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data].filter((_, i) => i % 4 === 0)"
    return locator.evaluate(script)


def test_drawing_is_completed_around_what_was_drawn(watched):
    tab = watched.open("draw")
    tab.get_by_role("button", name="Clear all").click()
    box = tab.locator(".sketch").bounding_box()
    watched.page.mouse.move(box["x"] + box["width"] * 0.1, box["y"] + box["height"] * 0.1)
    watched.page.mouse.down()
    watched.page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.1, steps=4)
    watched.page.mouse.up()
    tab.get_by_role("button", name="Lower half").click()
    expect(tab.locator(".told")).to_have_text("8 of 16 pixels masked")
    drawn = canvas(tab.locator(".sketch"))
    assert 255 in drawn[:8]
    tab.get_by_label("Class", exact=True).select_option("1")
    tab.get_by_label("Guidance", exact=True).fill("1.5")
    run(tab)
    expect(tab.locator(".card")).to_have_count(4)
    ends = [canvas(tab.locator(".picture").nth(i)) for i in range(4)]
    assert all(end[:8] == drawn[:8] for end in ends)
    assert len({tuple(end[8:]) for end in ends}) > 1
    slide(tab, 0)
    assert canvas(tab.locator(".picture").first) == drawn
    tab.locator(".card").first.get_by_role("button", name="Edit").click()
    assert canvas(tab.locator(".sketch")) == ends[0]
    tab.locator(".sketch").focus()
    tab.get_by_text("Mask", exact=True).click()
    tab.locator(".sketch").focus()
    watched.page.keyboard.press("Space")
    expect(tab.locator(".told")).not_to_have_text(re.compile("^0 of"))
    tab.get_by_role("button", name="Undo").click()
    assert canvas(tab.locator(".sketch")) == ends[0]


def test_explanation_follows_its_sliders(watched):
    tab = watched.open("explain")

    def figures():
        names = ("alpha", "weight", "steps")
        return [tab.locator(f"#figure-{name}").inner_html() for name in names]

    def masked():
        return tab.locator(".sentence .masked").count()

    before = figures()
    tab.get_by_label("Time t", exact=True).fill("0")
    assert masked() == 0
    tab.get_by_label("Time t", exact=True).fill("0.25")
    few = masked()
    tab.get_by_label("Time t", exact=True).fill("1")
    assert 0 < few < masked() == tab.locator(".sentence .token").count()
    tab.get_by_label("Schedule", exact=True).select_option("cosine")
    tab.get_by_label("Steps T", exact=True).fill("8")
    assert all(now != then for now, then in zip(figures(), before, strict=True))
    expect(tab.locator("#figure-steps rect")).to_have_count(8)


def test_schedules_of_the_page_are_those_of_the_core(watched):
    watched.open("explain")
    found = watched.page.evaluate(
        """async () => {
          const { SCHEDULES, alpha, expectedReveals } = await import("/studio/schedules.js");
          const times = [0.01, 0.3, 0.5, 0.9];
          const rows = Object.keys(SCHEDULES).map(name => [name,
            times.map(t => alpha(name, t, 2)), times.map(t => SCHEDULES[name].weight(t, 2)),
            expectedReveals(name, "uniform", 5, 100, 2), expectedReveals(name, "cosine", 5, 100, 2)]);
          return rows; }"""
    )
    times = torch.tensor([0.01, 0.3, 0.5, 0.9], dtype=torch.float64)
    known = {"linear": Linear(), "cosine": Cosine(), "geometric": Geometric(), "polynomial": Polynomial(2.0)}
    assert [name for name, *_ in found] == list(known)
    for name, *values in found:
        schedule = known[name]
        reveals = [100 * schedule.alpha(grid(5)).diff() for grid in (uniform_grid, cosine_grid)]
        wanted = [schedule.alpha(times), -schedule.loss_weight(times), *reveals]
        for value, right in zip(values, wanted, strict=True):
            torch.testing.assert_close(torch.tensor(value, dtype=torch.float64), right, rtol=1e-9, atol=1e-9)


def background(page):
    """The brightness of the page."""
    colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


def test_dark_as_the_system_or_as_chosen(watched):
    watched.open()
    assert background(watched.page) > 200
    watched.page.emulate_media(color_scheme="dark")
    assert background(watched.page) < 50
    watched.page.reload()
    watched.page.get_by_role("button", name="Switch to light").click()
    assert background(watched.page) > 200
    watched.page.reload()
    assert background(watched.page) > 200


@pytest.mark.parametrize("context_options", [{"viewport": {"width": 360, "height": 740}, "has_touch": True}])
def test_phone_needs_no_sideways_scrolling(watched):
    tab = watched.open()
    for fold in watched.page.locator("details").all():
        fold.evaluate("e => e.open = true")
    tab.locator(".go .primary").tap()
    finished(tab)
    tab.locator(".card .token.new").first.tap()
    expect(watched.page.locator("#bubble")).to_be_visible()
    expect(tab.get_by_role("button", name=re.compile("Regenerate"))).to_be_visible()
    for name in ("Surprise", "Draw", "Explain", "Write"):
        watched.page.get_by_role("tab", name=name).tap()
        assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name


def test_errors_are_one_line(watched):
    watched.refusals = True
    tab = watched.open(model="letters")
    error = watched.page.locator("#error")
    run(tab)
    before = texts(tab.locator(".results"))
    tab.get_by_label("Steps", exact=True).fill("99999")
    tab.locator(".go .primary").click()
    expect(error).to_contain_text("too many steps: got 99999")
    assert texts(tab.locator(".results")) == before, "a run that fails takes nothing away"
    watched.page.get_by_role("button", name="Dismiss").click()
    expect(error).to_be_hidden()
    tab.get_by_label("Steps", exact=True).fill("")
    tab.get_by_label("Text", exact=True).fill("xyz A")
    expect(tab.locator(".complaint")).to_contain_text('letters does not support "x" "y" "z" " "')
    tab.get_by_role("button", name="Fix text").click()
    expect(tab.get_by_label("Text", exact=True)).to_have_value("A")
    expect(tab.locator(".complaint")).to_be_hidden()
    watched.page.route("**/api/trajectory", lambda route: route.abort())
    tab.locator(".go .primary").click()
    expect(error).to_contain_text("the server does not answer")
    busy = {"error": {"message": "too many requests are waiting"}}
    watched.page.route(
        "**/api/trajectory", lambda route: route.fulfill(status=429, json=busy, headers={"Retry-After": "7"})
    )
    tab.locator(".go .primary").click()
    expect(error).to_have_text("too many requests are waiting: try again in 7 s")
    assert texts(tab.locator(".results")) == before


def test_the_key_is_asked_for_and_kept(watched, named_models):
    watched.refusals = True
    with serving(named_models[0], UNMASK_API_KEY="secret") as (address, _):
        watched.address = address
        page = watched.page
        page.goto(address)
        page.get_by_label("API key").fill("wrong")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_text("That key is not valid.")).to_be_visible()
        page.get_by_label("API key").fill("secret")
        page.get_by_role("button", name="Continue").click()
        run(page.locator("#write"))
        page.reload()
        page.wait_for_selector("html[data-ready]")
        expect(page.get_by_role("dialog")).to_be_hidden()
        page.get_by_role("tab", name="Draw").click()
        expect(page.locator("#draw")).to_contain_text("No image model is being served")


def test_the_page_may_ask_only_its_server(watched):
    answer = watched.page.goto(watched.address)
    assert answer.headers["content-security-policy"].startswith("default-src 'self';")
    script = watched.page.request.get(f"{watched.address}/studio/main.js")
    assert script.headers["content-security-policy"].startswith("default-src 'self';")
    assert watched.page.request.get(f"{watched.address}/studio/../app.py").status == 404


def test_the_reference_of_the_api_is_a_page_of_ours(watched):
    """FastAPI's page would load scripts from other servers."""
    watched.page.goto(f"{watched.address}/docs")
    routes = watched.page.locator("#routes section")
    expect(routes.filter(has_text="POST /v1/completions").locator("tr", has_text="max_tokens")).to_have_count(1)
    assert routes.count() >= 10
