"""Runs the command of a status bar's recipe as the bar does, and checks its lines by the bar's rules.

    bars.py PAGE BAR

PAGE is the Markdown page with the recipes. Prints for each line what the bar shows.
"""

import configparser
import json
import re
import subprocess
import sys
import tomllib


def ini(text, section):
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    return parser[section]


def waybar(text):
    """waybar(5) custom: with return-type json, a line is an object with these keys."""
    module = json.loads("{" + text + "}")["custom/network"]
    assert module["return-type"] == "json", module

    def shown(line):
        values = json.loads(line)
        assert set(values) <= {"text", "alt", "tooltip", "class", "percentage"}, values
        for value in values.values():
            assert isinstance(value, str), values
        icons = module["format-icons"]
        icon = icons.get(values["alt"], icons["default"])
        return module["format"].replace("{icon}", icon).replace("{}", values["text"])

    return module["exec"], shown


def polybar(text):
    """custom/script: with tail, each line replaces the last one."""
    module = ini(text, "module/network")
    assert module["type"] == "custom/script" and module["tail"] == "true"
    return module["exec"], str.strip


def i3blocks(text):
    """i3blocks(1): with format=json, a line is an object of the i3bar protocol."""
    block = ini(text, "network")
    assert block["interval"] == "persist" and block["format"] == "json"

    def shown(line):
        values = json.loads(line)
        assert all(isinstance(value, str) for value in values.values()), values
        return values["full_text"] + " " + values["short_text"]

    return block["command"], shown


def starship(text):
    """The module appears if `when` succeeds, with the output of `command`."""
    module = tomllib.loads(text)["custom"]["network"]
    return f"{module['when']} && {module['command']}", str.strip


page, bar = sys.argv[1:]
with open(page) as file:
    section = file.read().split(f"\n## {bar}\n")[1].split("\n## ")[0]
block = re.search(r"```\w+\n(.*?)```", section, re.DOTALL).group(1)
command, shown = globals()[bar](block)
process = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, text=True)
for line in process.stdout:
    assert line.endswith("\n"), line
    print(shown(line[:-1]), flush=True)
sys.exit(process.wait())
