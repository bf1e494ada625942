"""Wording of the training sentences: pure text, no logic.

Placeholders are ``str.format`` fields. Sentences in the ``HELD_OUT_*`` tuples are never trained.
"""


def phrases(text: str) -> tuple[str, ...]:
    """The ``|``-separated phrases of ``text``."""
    return tuple(text.split("|"))


BUG_KEYS = ("file", "line", "severity")
CONTACT_KEYS = ("name", "email")
LOG_KEYS = ("level", "service", "code")

#: The impact, where one is named, decides the severity.
IMPACTS = {
    "high": phrases(
        "crashes {thing}|breaks {thing}|kills {thing}|takes down {thing}|corrupts {thing}|"
        "blocks {thing}|wipes {thing}|destroys {thing}|brings down {thing}|freezes {thing}|"
        "stops {thing}|loses {thing}|leaks {thing} to strangers|makes {thing} unusable|"
        "causes data loss|causes data loss in {thing}|loses user data|a security hole|"
        "exposes passwords|deadlocks {thing}|prevents {thing} from starting|urgent|critical|"
        "a total outage|the whole system is down|nobody can log in|production is down|"
        "aborts {thing}|fails every time|makes {thing} crash|a fatal error|blocks the release"
    ),
    "medium": phrases(
        "slows down {thing}|delays {thing}|degrades {thing}|slow under load|sometimes fails|"
        "fails now and then|{thing} is slow|gives wrong results|gives wrong results in {thing}|"
        "wastes memory|leaks memory in {thing}|retries too often|times out sometimes|"
        "{thing} needs a restart now and then|makes {thing} flaky|works after a retry|"
        "a workaround exists|affects some users|affects {thing} from time to time|"
        "skips some entries|slows {thing}|hurts performance|uses too much memory|"
        "{thing} takes too long|sometimes returns stale data|intermittent|moderate"
    ),
    "low": phrases(
        "looks odd|looks odd in {thing}|a cosmetic issue|only cosmetic|a small glitch in {thing}|"
        "barely visible|nobody noticed|only a style issue|not urgent|harmless|annoying but harmless|"
        "only affects the docs|clutters {thing}|a minor annoyance|minor|trivial|"
        "can wait|nice to have|only in the comments|no user impact|does not affect {thing}|"
        "misaligns {thing}|a wrong color in {thing}|only noise in the log|easy to ignore"
    ),
}

#: Kinds of bugs that carry a severity by themselves, used where no impact is named.
KINDS = {
    "high": phrases(
        "Crash|Segfault|Segmentation fault|Deadlock|Data loss|Memory corruption|Security hole|"
        "Buffer overflow|Kernel panic|SQL injection|Stack overflow|Fatal error|System crash|"
        "Use after free|Data corruption"
    ),
    "medium": phrases(
        "Memory leak|Slow query|Flaky test|Timeout|Wrong result|Performance regression|Slow loop|"
        "Stale cache|Rounding error|Intermittent failure|Resource leak|Race condition|Slow startup"
    ),
    "low": phrases(
        "Typo|Misspelled word|Spelling mistake|Broken link|Missing comment|Trailing whitespace|"
        "Unused import|Unused variable|Bad indentation|Outdated comment|Wrong color|Missing docstring|"
        "Style issue|Grammar mistake|Missing period|Cosmetic glitch|Small typo"
    ),
}

#: Subjects that say nothing about the severity.
NEUTRAL_ERRORS = phrases(
    "Error|Exception|Bug|Failure|Problem|Issue|Unexpected token|Off by one|Assertion failure|"
    "Wrong argument|Null reference|Missing check|Bad cast|Wrong index|Unhandled case|Invalid state|"
    "Failed assertion|Uncaught exception|Wrong default|Missing return|Division by zero"
)

ERROR_CLASSES = phrases(
    "NullPointerException|IndexError|KeyError|TypeError|ValueError|RuntimeError|TimeoutError|"
    "AttributeError|ZeroDivisionError|IllegalArgumentException|IllegalStateException|"
    "ArrayIndexOutOfBoundsException|ClassCastException|FileNotFoundError|PermissionError|"
    "ImportError|MemoryError|OverflowError|AssertionError|UnicodeDecodeError|IOException|"
    "StackOverflowError|OutOfMemoryError|SyntaxError|ReferenceError|RangeError|NameError|"
    "ConnectionError|ConcurrentModificationException|NumberFormatException|OSError"
)

IMPACT_BUGS = (
    "{err} in {file} at line {line}, {impact}",
    "{err} in {file} line {line}, {impact}",
    "{err} in {file} on line {line}, {impact}",
    "{err} in {file}, line {line}, {impact}",
    "{err} in {file}:{line}, {impact}",
    "{err} at line {line} of {file}, {impact}",
    "{err} at {file}:{line}, {impact}",
    "{err} at {file} line {line}; {impact}",
    "{err} on line {line} in {file}; {impact}",
    "{err} thrown in {file} at line {line}, {impact}",
    "{err} raised by {file} at line {line}, {impact}",
    "{err} seen in {file} at line {line}: {impact}",
    "{err} in {file} (line {line}), {impact}",
    "{err} in {file} (line {line}): {impact}",
    "{err} ({file}, line {line}): {impact}",
    "{err} ({file}:{line}), {impact}",
    "{file}:{line}: {err}, {impact}",
    "{file}:{line} {err}, {impact}",
    "{file} line {line}: {err}, {impact}",
    "{file}, line {line}: {err}; {impact}",
    "{file} has {err} at line {line}, {impact}",
    "{file} fails with {err} at line {line}, {impact}",
    "{file} throws {err} on line {line}, {impact}",
    "line {line} of {file}: {err}, {impact}",
    "Line {line} in {file} raises {err}, {impact}",
    "At line {line} of {file} there is {err}, {impact}",
    "In {file} at line {line}: {err}, {impact}",
    "In {file}, line {line}, we see {err}: {impact}",
    "We hit {err} in {file} at line {line}, {impact}",
    "I found {err} in {file} on line {line}; {impact}",
    "User {user} reports {err} in {file} at line {line}, {impact}",
    "{user} saw {err} in {file} line {line}, {impact}",
    "Since version {number} there is {err} in {file} at line {line}, {impact}",
    "Bug {number}: {err} in {file} at line {line}, {impact}",
    "#{number} {err} in {file}, line {line}: {impact}",
    "{err} in {file} at line {line}, column {number}, {impact}",
    "{err} in {file} at line {line} after {number} requests, {impact}",
    "{err} in function {user} of {file} at line {line}, {impact}",
    "{impact}: {err} in {file} at line {line}",
    "{impact}, see {file} line {line} ({err})",
    "{err} at {file}#L{line}, {impact}",
    'File "{file}", line {line}: {err}, {impact}',
    "{err} in {file} at line {line}. {impact}.",
    "{err} in {file} at line {line} {impact}",
    "{err} in {file} line {line} - {impact}",
    "Please fix {err} in {file} at line {line}, {impact}",
    "{err} when I open {file}, look at line {line}; {impact}",
    "{err} while loading {file} (line {line}), {impact}",
    "{file} shows {err} around line {line}, {impact}",
    "Got {err} from {file}, line {line}: {impact}",
    "Seen on line {line} of {file}: {err}, {impact}",
    "{err} has been there since {number} in {file} at line {line}, {impact}",
    "{user} got {err} in {file}:{line}; {impact}",
    "The cause is line {line} of {file}: {err}, {impact}",
    "{err}: check {file} at line {line}, {impact}",
    "There seems to be {err} at line {line} in {file}; {impact}",
)

HELD_OUT_IMPACT_BUGS = (
    "{err} while running {file}, see line {line}; {impact}",
    "Found in {file} at line {line}: {err}, {impact}",
    "{file} reports {err} near line {line}, {impact}",
    "There is {err} on line {line} of {file}: {impact}",
    "{user} hit {err} at {file}:{line}; {impact}",
    "{err} was seen at line {line} in {file}, {impact}",
)

KIND_BUGS = (
    "{kind} in {file} line {line}",
    "{kind} in {file} at line {line}",
    "{kind} in {file} on line {line}",
    "{kind} in {file}, line {line}",
    "{kind} in {file}:{line}",
    "{kind} at {file}:{line}",
    "{kind} at line {line} of {file}",
    "{kind} on line {line} of {file}",
    "{kind} ({file}, line {line})",
    "{kind} in {file} (line {line})",
    "{file}:{line}: {kind}",
    "{file}:{line} {kind}",
    "{file} line {line}: {kind}",
    "{file}, line {line}: {kind}",
    "{file} has {kind} at line {line}",
    "Line {line} of {file}: {kind}",
    "In {file} at line {line}: {kind}",
    "There is {kind} in {file} at line {line}",
    "{user} found {kind} in {file} line {line}",
    "Bug {number}: {kind} in {file} line {line}",
    "Fix {kind} in {file} line {line}",
    "{kind}: {file} line {line}",
)

HELD_OUT_KIND_BUGS = (
    "Found {kind} in {file} on line {line}",
    "{kind} near line {line} in {file}",
    "{file} contains {kind} on line {line}",
)

LEVEL_BUGS = (
    "{err} in {file} at line {line}, severity {level}",
    "{err} in {file} line {line} ({level})",
    "[{level}] {err} in {file} at line {line}",
    "{err} in {file}:{line}, {level} severity",
    "{level} severity: {err} in {file} line {line}",
    "{err} at line {line} of {file}, priority {level}",
)

CONTACTS = (
    "{name} from {company} can be reached at {email}",
    "{name} can be reached at {email}",
    "{name} works at {company}, email {email}",
    "{name} <{email}>",
    "{name} ({email})",
    "{name}, {email}",
    "{name} - {email} - {company}",
    "Contact {name} at {email}",
    "Write to {name} at {email} for details",
    "Please email {name} ({email}) about {company}",
    "My name is {name} and my email is {email}",
    "I am {name}, mail me at {email}",
    "Email: {email}, name: {name}",
    "Name: {name}; email: {email}",
    "{email} belongs to {name}",
    "{email} is the address of {name} from {company}",
    "Send the invoice to {name}, {email}",
    "For {company} ask {name} at {email}",
    "The new contact at {company} is {name}, {email}",
    "{name} of {company} has the address {email}",
    "Call {name} on {number} or write to {email}",
    "{company}: {name}, {email}, room {number}",
)

HELD_OUT_CONTACTS = (
    "You can reach {name} of {company} at {email}",
    "The email of {name} is {email}",
    "Ask {name} ({company}) at {email}",
)

LOG_LEVELS = ("ERROR", "WARN", "INFO", "DEBUG", "FATAL", "TRACE", "WARNING", "CRITICAL")

LOGS = (
    "[{level}] {service}: returned {code} after {number} ms",
    "[{level}] {service} returned {code}",
    "[{level}] {service}: code {code}",
    "[{level}] {service} - status {code} in {number} ms",
    "{level} {service} {code}",
    "{level} {service}: request failed with {code}",
    "{level}: {service} exited with code {code}",
    "{level} [{service}] status={code}",
    "{level} {service} code={code} time={number}",
    "{service} [{level}] returned {code}",
    "{service} {level}: got {code} from {user}",
    "{service}: {level}: code {code}",
    "level={level} service={service} code={code}",
    "service={service} level={level} status={code} id={number}",
    "{number} {level} {service}: status {code}",
    "{number} [{level}] {service}: answered {code}",
    "{level} at {service}: {code} for user {user}",
    "{level} | {service} | {code}",
    "{level} | {service} | {code} | {number} ms",
    "code {code} from {service} ({level})",
    "{level} {service} answered {code} to {user}",
)

HELD_OUT_LOGS = (
    "[{level}] {service}: status {code} for {user}",
    "{level} {service} failed with status {code}",
    "{service} ({level}) returned code {code}",
)

#: The plain request; the varied ones are put together from the parts below it.
ASK_JSON = "Extract {keys} as JSON from: {text}"
ASK_OPENINGS = phrases("||||Please |Can you |Could you please |Now |I want you to |Kindly |Hey, ")
ASK_VERBS = phrases(
    "extract|extract|extract|get|find|pull|read|list|show|return|fetch|output|identify|provide|"
    "report|parse|pick|collect|tell me|write down|show me|take"
)
ASK_FORMATS = phrases(
    "as JSON|as JSON|as JSON|in JSON|as json|as a JSON object|in JSON format|as compact JSON"
)
ASK_SOURCES = phrases(
    "from: |from: |from this: |from this text: |from the text: |for: |in: |of: |: |from the following: |"
    "from this sentence: |given this: |from |from:\n|from this line: "
)
ASK_OBJECTS = phrases(
    "a JSON object with {keys}|JSON containing {keys}|a JSON record of {keys}|JSON for {keys}|"
    "one JSON object that has {keys}|a JSON object with the keys {keys}|JSON (keys: {keys})"
)
ASK_LAST = "{text}\n{request}."

HELD_OUT_ASK_JSON = (
    "Give me the {keys} as JSON from: {text}",
    "Return JSON with {keys} for: {text}",
)

ASK_VALUE = (
    "Extract only the {key} from: {text}",
    "What is the {key} in: {text}",
    "Answer with the {key} only: {text}",
)

SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "You extract records.",
    "Answer with JSON.",
    "You are a precise extraction engine. Answer with JSON only.",
)

SMALL_TALK = phrases(
    "Hello|Hi|Hi there|Good morning|How are you?|What is the weather today?|Who are you?|What is {thing}?|"
    "Tell me a joke|Write a poem about {thing}|What can you do?|Help|Help me with {thing}|Thanks|"
    "Explain {thing}|Why is {thing} slow?|Where is {thing}?|What is 2 plus 2?|Translate {thing}|"
    "Tell me about {thing}|Do you like {thing}?|Can you help me?|What do you know about {thing}?"
)

SMALL_TALK_ANSWER = "I only extract records as JSON: bugs, contacts and log lines."

THINGS = phrases(
    "the build|the server|the database|the login page|every request|the app|the nightly job|"
    "the editor|user sessions|the upload|all tests|the release|the payment page|the whole cluster|"
    "the installer|the report|the menu|the search|the export"
)
