"""Wording of the requests that are answered with a tool call: pure text, no logic.

``{path}``, ``{line}`` and ``{pattern}`` are the call's arguments. Requests in the ``HELD_OUT_*``
tuples are never trained.
"""

from .templates import phrases

READ_VERBS = phrases(
    "open|open|open|read|read|read|show me|show me|show|display|print|view|look at|load|cat|give me|"
    "get|fetch|check|inspect|see|examine|pull up|bring up|take a look at|have a look at|dump|list"
)
READ_OBJECTS = phrases(
    "{path}|{path}|{path}|{path}|{path}|the file {path}|file {path}|the contents of {path}|"
    "the content of {path}|{path} for me|the text of {path}|what is in {path}"
)
READ_LINE_OBJECTS = phrases(
    "{path} at line {line}|{path} at line {line}|{path} line {line}|{path}, line {line}|"
    "line {line} of {path}|line {line} of {path}|line {line} in {path}|{path}:{line}|"
    "{path} on line {line}|{path} (line {line})|the file {path} at line {line}|"
    "only line {line} of {path}|what is on line {line} of {path}|line {line} of the file {path}"
)
READ_SENTENCES = phrases(
    "What is in {path}?|What does {path} say?|What does {path} contain?|I need {path}|"
    "I need to see {path}|Let me see {path}|Let me read {path}|I want to see {path}|"
    "What is written in {path}?|Can I see {path}?|Use read_file on {path}|Go to {path}"
)
READ_LINE_SENTENCES = phrases(
    "What is on line {line} of {path}?|What does line {line} of {path} say?|Go to {path}:{line}|"
    "What does {path} say at line {line}?|Let me see line {line} of {path}|Go to line {line} of {path}|"
    "I need line {line} of {path}|Let me see {path} at line {line}|Use read_file on {path} line {line}"
)
HELD_OUT_READ = (
    "Would you open {path}?",
    "I would like to read {path}",
    "Can you show me {path} now",
    "Please print out {path}",
)
HELD_OUT_READ_LINE = (
    "Jump to line {line} of {path}",
    "Would you open {path} at line {line}?",
    "I would like to read line {line} of {path}",
)

SEARCH_REQUESTS = phrases(
    "search for {pattern} in {path}|search for {pattern} in {path}|search {path} for {pattern}|"
    "find {pattern} in {path}|find {pattern} in {path}|look for {pattern} in {path}|"
    "grep {pattern} in {path}|grep {pattern} {path}|grep for {pattern} in {path}|"
    "locate {pattern} in {path}|list all uses of {pattern} in {path}|search {pattern} in {path}|"
    "find all uses of {pattern} in {path}|find every {pattern} in {path}|look in {path} for {pattern}|"
    "show me where {pattern} is in {path}|find out where {path} uses {pattern}|"
    "check whether {path} contains {pattern}|search the folder {path} for {pattern}|"
    "search through {path} for {pattern}|find where {pattern} is used in {path}|"
    "look up {pattern} in {path}|scan {path} for {pattern}|search the file {path} for {pattern}"
)
SEARCH_SENTENCES = phrases(
    "Where is {pattern} in {path}?|Where does {pattern} occur in {path}?|Is {pattern} used in {path}?|"
    "Which files in {path} mention {pattern}?|Where is {pattern} used in {path}?|"
    "Does {path} contain {pattern}?|Where in {path} is {pattern}?|Is there a {pattern} in {path}?|"
    "In {path}, find {pattern}|In {path} search for {pattern}|Use search for {pattern} in {path}"
)
HELD_OUT_SEARCH = (
    "Would you search {path} for {pattern}?",
    "Where can I find {pattern} in {path}?",
    "Show all places in {path} with {pattern}",
    "Look through {path} and find {pattern}",
)

#: Joins of two requests, the second in lower case.
JOINS = phrases("{first} and {second}|{first} and then {second}|{first}, then {second}")
PATHS_JOINS = phrases(
    "{first} and {second}|{first} and {second}|{first} and {second}|both {first} and {second}|"
    "{first} and also {second}|the files {first} and {second}|{first}, {second}"
)

#: Requests to say something before the call; ``{request}`` starts in lower case.
SAY_FIRST = phrases(
    "Say what you do, then {request}|Say what you do and {request}|Tell me what you do, then {request}|"
    "First say what you do, then {request}|Say what you do before you {request}|"
    "Explain what you do, then {request}|Say in one sentence what you do, then {request}|"
    "Announce it, then {request}|Talk first, then {request}"
)
SAY_LAST = phrases(
    "{request}, but say what you do first|{request}. Say what you do first|"
    "{request} and tell me what you do|{request}. First tell me what you do|"
    "{request} and say what you do|{request}. Explain what you do"
)

#: A call that fetches the text of a record, and the request for the record.
READ_AND_EXTRACT = phrases(
    "{read} and extract {keys} as JSON|{read} and extract {keys} as JSON|{read} and extract {keys} as JSON|"
    "{read} and extract the {keys} as JSON|{read} and give me {keys} as JSON|{read} and get {keys} in JSON|"
    "{read} and return {keys} as JSON|{read}, then extract {keys} as JSON|{read} and then extract {keys} as JSON|"
    "{read} and list {keys} as JSON|{read}. Extract {keys} as JSON|{read}. Then give me {keys} as JSON|"
    "{read} and write {keys} as JSON|{read} and find {keys} as JSON|{read} and pull {keys} as JSON object"
)
EXTRACT_FROM_FILE = phrases(
    "Extract {keys} as JSON from the file {path}|Get {keys} as JSON from the file {path}|"
    "Extract {keys} from {path} as JSON|Extract {keys} from the file {path} as JSON|"
    "Read {keys} from {path} as JSON|Give me {keys} of {path} as JSON|Find {keys} in {path} as JSON"
)
HELD_OUT_READ_AND_EXTRACT = (
    "{read} and report {keys} as JSON",
    "{read}. I need {keys} as JSON",
)

PATTERNS = phrases(
    "TODO|FIXME|XXX|HACK|main|import|return|error|timeout|TODO|class|def|password|deprecated|ERROR|WARN"
)
#: Patterns of two words; only after these first words, or in quotes, a pattern holds a blank.
PATTERN_PAIRS = phrases(
    "class {word}|def {word}|import {word}|function {word}|struct {word}|new {word}"
)

#: Lines of a tool result that hold no record.
OTHER_LINES = phrases(
    "# notes|# {word}|---|Dear team,|Best regards|ok|done|import {word}|Thanks|see below|// {word}|"
    "{word} = {number}|starting {word}|== {word} ==|Hello,|end of file|{word}: ok|. . .|begin {word}"
)
CODE_LINES = phrases(
    "import {word}|def {word}():|return {word}|{word} = {number}|class {word}:|// {word}|# {word} {number}|"
    "{word}({number});|let {word} = {number};|int {word} = {number};|if {word} > {number}:|"
    'print("{word}")|const {word} = "{number}";|{word}.{word}();|# TODO: {word}|public void {word}() {{'
)

#: Results of calls that failed; ``{path}`` is the call's.
FAILURES = phrases(
    "No such file: {path}|error: {path} not found|cannot read {path}|Permission denied: {path}|"
    "{path}: No such file or directory|[Errno 2] No such file or directory: '{path}'|nothing found|"
    "no match|File not found|error: no such file|{path} does not exist|{path} is empty"
)
