"""Grammars of the kinds that users bring along: they load, match what they describe and refuse what they do not."""

import pytest

from infernix_core.interfaces.constraints import Grammar
from infernix_core.interfaces.language import Content

ARITHMETIC = r"""
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] ws term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t]*
"""
C_SUBSET = r"""
root ::= function*
function ::= type " " name "(" parameter? ")" ws "{" ws statement* "}" ws
type ::= "int" | "float" | "char"
parameter ::= type " " name ("," ws type " " name)*
statement ::= (type " " name ws "=" ws sum ";" ws) | (name ws "=" ws sum ";" ws) |
  ("return" " " sum ";" ws) | ("while" ws "(" ws test ")" ws "{" ws statement* "}" ws) |
  ("//" [^\n]* "\n" ws)
test ::= sum compare ws sum
compare ::= "<=" | "<" | "==" | "!=" | ">=" | ">"
sum ::= product (("+" | "-") ws product)*
product ::= unit (("*" | "/") ws unit)*
unit ::= (name | number | "-" unit | "(" ws sum ")") ws
name ::= [a-zA-Z_] [a-zA-Z_0-9]*
number ::= [0-9]+
ws ::= ([ \t\n]+)?
"""
CHESS = r"""
root ::= ("1. " move " " move "\n") ([1-9] [0-9]? ". " move " " move "\n")+
move ::= (pawn | piece | castle) [+#]?
piece ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]
pawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBQR])?
castle ::= "O-O" "-O"?
"""
ENGLISH = r"""
root ::= sentence (" " sentence)*   # plain ASCII prose
sentence ::= [A-Z] [a-z]* ((" " | ", ") word)* [.!?]
word ::= [a-zA-Z0-9'-]+
"""
JAPANESE = r"""
root ::= sign+ ([ \t\n] sign+)*
sign ::= hiragana | katakana | punctuation | kanji
hiragana ::= [ぁ-ゟ]
katakana ::= [ァ-ヿ]
punctuation ::= [、-〾]
kanji ::= [一-鿿]
"""
JSON = r"""
root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""
JSON_ARRAY = JSON.replace("root ::= object", "root ::= array")
LIST = r"""
root ::= item+
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n"
"""


@pytest.mark.parametrize(
    ("source", "good", "bad"),
    [
        (ARITHMETIC, ["1+2=3\n", "(x1 + 2) * 3 = y\n4=4\n"], ["1+=3\n", "1+2=3", "A=1\n"]),
        (
            C_SUBSET,
            [
                "",
                "int main(){ int x = (1 + y) * 2; while (x < 3) { x = x + 1; } // end\n return -x; }",
            ],
            ["int main() { return 1 }", "long f(){}", "int f(){ x == 1; }"],
        ),
        (CHESS, ["1. e4 e5\n2. Nf3 Nc6\n3. O-O exd8=Q#\n"], ["1. e4 e5\n", "1. e9 e5\n2. e4 e4\n"]),
        (ENGLISH, ["The cat, it's well-fed, sleeps. Good!"], ["the cat.", "Über.", "No end"]),
        (JAPANESE, ["日本語の テキスト。", "あ"], ["a", "日本語 ", ""]),
        (
            JSON,
            ['{"a": [1, -2.5e+3, "x\\u00e9\\n"], "b": {}}', '{\n  "k": null }'],
            ["[1]", '{"a": 01}', '{"a": "\t"}', "{'a': 1}", '{"a":  1}'],
        ),
        (JSON_ARRAY, ["[]", '[{"a": true}, [[]], "é"]'], ["{}", "[1,]", "[1 2]"]),
        (LIST, ["- one\n- two 日本\n"], ["- one", "-two\n", "- \n", "- a\u2028b\n"]),
    ],
    ids=["arithmetic", "c", "chess", "english", "japanese", "json", "json-array", "list"],
)
def test_kind(source, good, bad, byte_bound):
    compiled = byte_bound.compile(Content(Grammar(source)))

    def complete(text):
        matcher = compiled.start()
        return all(map(matcher.accept, text.encode())) and matcher.may_end

    assert [text for text in good if not complete(text)] == []
    assert [text for text in bad if complete(text)] == []
