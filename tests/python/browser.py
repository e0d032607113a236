"""A report page, written by the library and opened in Chromium."""

import json
import shutil
import subprocess

from ttap_command import TTAP

MAKE_PAGE = TTAP.parents[1] / "tests/report/make_page"
BINARY = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")


def start(logs=True):
    """A driver; its logs hold what the console and the network saw, which costs a page time."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BINARY
    flags = (
        "headless=new",
        "no-sandbox",
        "disable-dev-shm-usage",
        "enable-unsafe-swiftshader",
        "window-size=1280,1000",
    )
    for flag in flags:
        options.add_argument(f"--{flag}")
    if logs:
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(60)
    return driver


def write(report, path, title="a report"):
    made = subprocess.run([MAKE_PAGE, path, title], input=json.dumps(report), text=True, capture_output=True)
    assert made.returncode == 0, made.stderr
    return path


class Page:
    """What a reader sees and does. Elements are named by CSS selectors."""

    def __init__(self, driver, path, width=1280, dark=False):
        self.driver = driver
        preference = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [preference]})
        size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get("about:blank")
        for log in driver.log_types:
            driver.get_log(log)  # what came before does not count
        self.url = path.as_uri()
        driver.get(self.url)
        self.wait("return document.documentElement.dataset.ready || document.querySelector('.problem[role=alert]')")

    def js(self, script, *values):
        return self.driver.execute_script(script, *values)

    def wait(self, script, *values):
        from selenium.webdriver.support.wait import WebDriverWait

        return WebDriverWait(self.driver, 60, 0.02).until(lambda driver: driver.execute_script(script, *values), script)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def texts(self, selector):
        """The whole text of each, also of what is cut off or folded."""
        return self.js("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def text(self, selector):
        return self.find(selector).text

    def click(self, selector):
        from selenium.common.exceptions import StaleElementReferenceException

        for last in (False, False, True):  # scrolling may draw the lines of a table anew
            element = self.find(selector)
            try:
                self.js("arguments[0].scrollIntoView({block: 'center'})", element)
                element.click()
                return
            except StaleElementReferenceException:
                if last:
                    raise

    def search(self, text):
        box = self.find("#search")
        box.clear()
        box.send_keys(text)

    def shown(self, expected):
        """Waits until the line above the table says so."""
        self.wait("return document.getElementById('shown').textContent === arguments[0]", expected)

    def keys(self):
        """The names in the lines of the table that are in sight."""
        return self.texts(".lines .key")

    def open(self, key):
        self.search(key)
        self.wait("return document.querySelector('.lines .key')?.textContent === arguments[0]", key)
        self.click(".lines .line")
        self.wait("return document.getElementById('detail-key')?.textContent === arguments[0]", key)

    def drawn(self, selector):
        """Waits until Plotly has drawn here."""
        self.wait("return document.querySelector(arguments[0])?.data?.length", selector)

    def chart(self, expression):
        return self.js(f"const chart = document.getElementById('chart'); return {expression}")

    def console(self):
        """What went wrong, as the console saw it; a software renderer's remarks on its speed aside."""
        return [
            entry["message"] for entry in self.driver.get_log("browser") if "GL Driver Message" not in entry["message"]
        ]

    def requests(self):
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in sent if not url.startswith(("data:", "blob:"))]
