"""The embedded data set `tickets`: generated texts of a help desk with names of labels, identical on every machine.

A ticket tells of one to three problems, each of a label, among greetings and remarks. As in real tickets, some
sentences fit several labels, some words are misspelt, and some labels are missing or wrong.

All choices are made by `random.Random.random` and integers, which are the same in every version of Python.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from random import Random
from typing import TypeVar

__all__ = ["tickets"]

T = TypeVar("T")

SEED = 5
N = 2000
N_TEST = 1000

#: How many problems a ticket tells of: each number as often as it is here.
PROBLEMS = (1, 1, 1, 1, 1, 2, 2, 2, 2, 3)
#: The frequency of the label of a rank is proportional to 1 / (rank + offset)².
LABEL_OFFSET = 8
#: How often a further problem is of the same area as the first one.
SAME_AREA = 0.5
#: How often a sentence is one that fits all labels of an area.
VAGUE = 0.2
#: How often a label is missing, and how often it is another one of the same area.
MISSING = 0.08
WRONG = 0.05
#: How often a ticket has the label `urgent` if it says so, and if it does not.
URGENT_IF_SAID = 0.8
URGENT_OTHERWISE = 0.01
#: How often a word has a typing error, and a ticket no capital letters.
TYPING_ERROR = 0.02
LOWER_CASE = 0.1

# In a template, {a|b} is one of a and b, and {name} one of the phrases of that name.
PHRASES = {
    "program": "Word|Excel|the accounting program|the time sheet|the intranet|the booking system|the library catalogue",
    "place": "in room {12|104|215|318}|on the {first|second|third} floor|in the {library|office|workshop|lab}|at home",
    "when": "since {yesterday|Monday|Thursday|this morning|the holidays}|again|today",
    "who": "a new colleague|my colleague|our trainee|a guest|the whole team|my manager",
    "month": "January|March|May|June|October|December",
    "opening": "|||Hello.|Hi!|Dear colleagues!|Good morning.",
    "closing": "||||Thanks.|Thank you for your help.|Can you help?|What can I do?|It worked {yesterday|last week}.",
    "remark": (
        "I have restarted the laptop already.|My phone number is {4711|2205|3318}.|I use the computer {place}.|"
        "I could not find anything on the website.|Please answer by email.|The printer and the network are fine.|"
        "{who} has the same problem.|I tried it in another browser, too.|I sent an email about this last week.|"
        "My calendar is free {on Monday|tomorrow}."
    ),
    "urgent": (
        "It is urgent.|We have a deadline {today|tomorrow}.|Please come as soon as possible.|"
        "I have to finish this today.|Nobody can work.|Customers are waiting."
    ),
}

# By area: sentences that fit all its labels, separated by bars.
VAGUE_SENTENCES = {
    "account": "I cannot log in {when}|{program} does not let me in|access denied, says {program}",
    "mail": "my messages do not arrive|something is wrong with Outlook {when}|Outlook shows an error",
    "network": "I have no connection {place}|I am offline {when}|everything is slow {when}",
    "device": "it does not switch on any more|the {device|machine} {place} is broken|the button has no effect",
    "software": "{program} does not start|there is an error message in {program}|{program} is slow {when}",
    "office": "I need a signature for a form|who is responsible for this form?|there is a mistake in our data",
}

# The labels from the most to the least frequent, each with its area and its sentences, separated by bars.
LABELS = {
    "password": (
        "account",
        "I forgot {my|the} password{| for {program}}|my password has expired|please reset {my|the} password of {who}|"
        "the new password is not accepted {when}|how do I change my password?",
    ),
    "printer": (
        "device",
        "the {wireless printer|printer|copier} {place} {jams|prints blank pages|is not reachable|is out of toner}|"
        "I cannot print {double-sided|in colour|from {program}}|paper is stuck in the printer {when}|"
        "pages come out {blank|with stripes} from the printer",
    ),
    "email": (
        "mail",
        "my mailbox is full|I cannot send {emails|attachments|an email to {who}}|emails to {who} come back|"
        "attachments larger than ten megabytes are rejected|I get no emails {when}|my signature is missing in emails",
    ),
    "network": (
        "network",
        "the network {place} {is down|drops|is very slow} {when}|the network cable {place} {is broken|seems loose}|"
        "no network {place}|the laptop gets no address from the network|the network socket {place} is dead",
    ),
    "laptop": (
        "device",
        "my laptop {does not start|gets very hot|crashes} {when}|the battery of the laptop lasts an hour|"
        "the laptop {makes a loud noise|shows a blue screen}|I need a {new|larger} laptop for {who}",
    ),
    "access": (
        "account",
        "please give {who} access to {program}|I need access to {program}|please remove the access of {who}|"
        "{who} may not open {program}|I have no permission to read the folder of {who}",
    ),
    "software": (
        "software",
        "please install {a PDF editor|Python|Photoshop|a video player} for me|I need {a PDF editor|Python|Photoshop}|"
        "the installation of {Python|Photoshop|the driver} {fails|never ends}|which program opens this kind of file?",
    ),
    "monitor": (
        "device",
        "the {screen|monitor} {flickers|is dark|is too dark|has a green line} {when}|my screen is dark|"
        "the second {screen|monitor} is not recognised|I need a {larger|second} monitor",
    ),
    "vpn": (
        "network",
        "the VPN {disconnects|does not connect} {when}|I cannot reach {program} by VPN|the VPN asks for a certificate|"
        "how do I set up the VPN at home?",
    ),
    "wifi": (
        "network",
        "the {wifi|wireless network} {place} {drops|is slow|is not found} {when}|{who} needs the wifi password|"
        "my phone does not join the wifi|{the wifi|the wireless signal} {place} is weak",
    ),
    "spreadsheet": (
        "software",
        "the spreadsheet {crashes when I open it|shows wrong sums|is locked by {who}}|Excel {loses|rounds} my numbers|"
        "a formula in Excel {gives an error|is wrong}|the macro in my spreadsheet does not run",
    ),
    "billing": (
        "office",
        "the invoice for {month} is {wrong|missing|paid twice}|we never got an invoice for {month}|"
        "the invoice has the wrong {address|tax rate}|I have to send the invoice {today|tomorrow}",
    ),
    "phone": (
        "device",
        "my phone {rings once and stops|has no dial tone} {when}|I need to forward calls to my mobile|"
        "callers hear {nothing|an echo}|the answering machine is full|nobody can call us {when}",
    ),
    "calendar": (
        "mail",
        "{who} does not see my calendar|meetings are an hour late in my calendar|I cannot book a meeting {when}|"
        "the invitation of {who} is not in my calendar|my calendar on the phone is empty",
    ),
    "shared drive": (
        "network",
        "the drive {P|S|T} is {missing|full|read-only} {when}|I cannot save files on the shared drive|"
        "a folder on the shared drive has disappeared|copying to the shared drive takes hours",
    ),
    "account locked": (
        "account",
        "my account is locked {when}|please unlock {my account|the account of {who}}|"
        "too many attempts, my account is {locked|disabled}",
    ),
    "browser": (
        "software",
        "{the browser|Firefox|Chrome} {shows a warning|closes|does not load {program}} {when}|my bookmarks are gone|"
        "pop-ups are blocked in {Firefox|Chrome}",
    ),
    "two-factor": (
        "account",
        "the code for the second factor does not arrive|I lost the {token|phone} for the login code|"
        "the authenticator app shows a wrong code|how do I register a {new phone|token} for the login code?",
    ),
    "update": (
        "software",
        "the update {hangs at 30 percent|starts in every meeting|fails {when}}|Windows wants to restart {when}|"
        "since the update, {program} {crashes|looks different}",
    ),
    "new colleague": (
        "office",
        "{a trainee|a new colleague} starts {on Monday|in {month}} and needs {an account|a desk|a laptop}|"
        "please prepare everything for {a trainee|a new colleague} in {month}",
    ),
    "order": (
        "office",
        "I ordered {a keyboard|a headset|toner|cables} in {month}, where is it?|please order {toner|cables|a dock}|"
        "the delivery of {month} is incomplete|I want to cancel my order",
    ),
    "phishing": (
        "mail",
        "I clicked on a link in a {strange|suspicious} email|an email asks for my {password|bank account}|"
        "is this email from {the bank|the director} real?|{who} got a suspicious attachment",
    ),
    "website": (
        "software",
        "a link on our website is {dead|wrong}|the website shows old {prices|opening hours}|"
        "please publish the {news|photo|report} on the website|the contact form on our website fails",
    ),
    "backup": (
        "network",
        "please restore {a file|a folder|my report} from {yesterday|last week}|the backup failed {when}|"
        "I deleted {a file|a folder} by mistake|is my laptop in the backup?",
    ),
    "keyboard and mouse": (
        "device",
        "{keys of the keyboard stick|the mouse jumps|the mouse wheel is broken}|I spilt coffee on the keyboard|"
        "my mouse needs {batteries|a new cable}",
    ),
    "spam": (
        "mail",
        "I get {a lot of|twenty} spam {messages a day|mails} {when}|messages of {who} land in the spam folder|"
        "how can I block a sender?",
    ),
    "projector": (
        "device",
        "the projector {place} {shows no picture|has wrong colours|overheats}|the lamp of the projector is broken|"
        "how do I connect a laptop to the projector?",
    ),
    "licence": (
        "software",
        "the licence of {Photoshop|the statistics program|Word} {expires soon|is invalid}|"
        "how many licences for {Photoshop|the statistics program} are left?|the licence server does not answer",
    ),
    "video call": (
        "device",
        "nobody {hears|sees} me in video calls|the {headset|camera} is not found in {Teams|Zoom}|"
        "{Teams|Zoom} freezes in every call|the video of {who} is out of sync",
    ),
    "mailing list": (
        "mail",
        "please add {who} to the mailing list|who can write to the mailing list?|I want to leave the mailing list|"
        "the mailing list sends everything twice",
    ),
    "leaving": (
        "office",
        "{who} leaves us in {month}, please close the account|{who} returns {a laptop|the keys} on the last day|"
        "what happens to the files of people who leave?",
    ),
    "scanner": (
        "device",
        "the scanner {place} {makes black stripes|is not found|stops after a page}|scans do not arrive in my mailbox|"
        "scanned pages are upside down",
    ),
    "training": (
        "office",
        "is there a course for {Excel|beginners|the booking system}?|{who} wants to learn {Python|Excel}|"
        "please register me for the course in {month}",
    ),
    "database": (
        "software",
        "the database {rejects my query|is read-only|times out} {when}|I need an export of all customers|"
        "two records of a customer are the same in the database",
    ),
    "door card": (
        "office",
        "my card does not open the door {place}|I lost my {door card|key card}|"
        "{who} needs a {door card|key card} for the building",
    ),
    "refund": (
        "office",
        "I want my money back for {the course|the order of {month}}|the refund of {month} has not arrived|"
        "we were charged twice, please refund one",
    ),
}
URGENT = "urgent"
HEADER = ("id", "text", "labels")

WEIGHTS = [100_000 // (rank + LABEL_OFFSET) ** 2 for rank in range(len(LABELS))]
AREAS = {area: [label for label, (label_area, _) in LABELS.items() if label_area == area] for area in VAGUE_SENTENCES}


def tickets() -> tuple[str, str]:
    """Return the tickets for training (2000) and for testing (1000), as two CSV files with id, text and labels."""
    random = Random(SEED)  # noqa: S311, since nothing secret is drawn
    rows = [(f"T{number}", *_ticket(random)) for number in range(10_001, 10_001 + N + N_TEST)]
    return _csv(rows[:N]), _csv(rows[N:])


def _csv(rows: Sequence[tuple[str, str, str]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([HEADER, *rows])
    return file.getvalue()


def _ticket(random: Random) -> tuple[str, str]:
    """Return the text and the labels of a ticket."""
    problems = [_label(random, list(LABELS))]
    for _ in range(_choose(random, PROBLEMS) - 1):
        area = LABELS[problems[0]][0]
        label = _label(random, AREAS[area] if _happens(random, SAME_AREA) else list(LABELS))
        if label not in problems:
            problems.append(label)
    sentences = [_sentence(random, label) for label in problems]
    if _happens(random, 0.4):
        sentences.append(_fill(random, "{remark}"))
    says_urgent = _happens(random, 0.15)
    if says_urgent:
        sentences.append(_fill(random, "{urgent}"))
    parts = [_fill(random, "{opening}"), *map(_punctuate, sentences), _fill(random, "{closing}")]
    text = _with_typing_errors(random, " ".join(filter(None, parts)))
    labels = _given_labels(random, problems)
    if _happens(random, URGENT_IF_SAID if says_urgent else URGENT_OTHERWISE):
        labels.append(URGENT)
    return text.lower() if _happens(random, LOWER_CASE) else text, ";".join(labels)


def _sentence(random: Random, label: str) -> str:
    area, sentences = LABELS[label]
    return _fill(random, f"{{{VAGUE_SENTENCES[area] if _happens(random, VAGUE) else sentences}}}")


def _given_labels(random: Random, problems: Sequence[str]) -> list[str]:
    """Return the labels that a person gives to a ticket with these problems: at least one, and not always the right."""
    labels: list[str] = []
    for label in problems:
        if labels and _happens(random, MISSING):
            continue
        chosen = _label(random, AREAS[LABELS[label][0]]) if _happens(random, WRONG) else label
        if chosen not in labels:
            labels.append(chosen)
    return labels


def _fill(random: Random, template: str) -> str:
    """Replace the groups in braces, the innermost first; see `PHRASES`."""

    def replacement(match: re.Match[str]) -> str:
        inner = match[1]
        return f"{{{PHRASES[inner]}}}" if inner in PHRASES else _choose(random, inner.split("|"))

    while "{" in template:
        template = re.sub(r"\{([^{}]*)\}", replacement, template)
    return " ".join(template.split())


def _punctuate(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:] + ("" if sentence[-1] in ".?" else ".")


def _with_typing_errors(random: Random, text: str) -> str:
    """Exchange two neighbouring letters of some words, or leave one out."""

    def misspell(match: re.Match[str]) -> str:
        word = match[0]
        if not _happens(random, TYPING_ERROR):
            return word
        at = 1 + int(random.random() * (len(word) - 2))
        exchanged = word[at + 1] + word[at] if _happens(random, 0.5) else word[at + 1]
        return word[:at] + exchanged + word[at + 2 :]

    return re.sub("[A-Za-z]{4,}", misspell, text)


def _label(random: Random, labels: Sequence[str]) -> str:
    """Draw one of some labels, by its frequency."""
    ranks = [rank for rank, label in enumerate(LABELS) if label in labels]
    draw = random.random() * sum(WEIGHTS[rank] for rank in ranks)
    for rank in ranks:
        draw -= WEIGHTS[rank]
        if draw < 0:
            break
    return list(LABELS)[rank]


def _choose(random: Random, options: Sequence[T]) -> T:
    return options[int(random.random() * len(options))]


def _happens(random: Random, probability: float) -> bool:
    return random.random() < probability
