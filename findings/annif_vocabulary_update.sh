#!/usr/bin/env bash
# Package: Annif 1.4.3 (`annif load-vocab`), with its tfidf backend.
#
# Expected: loading a new version of a vocabulary over the old one keeps the numbers of the subjects, which trained models
# use. A subject that is gone keeps its number and is no longer suggested (Annif's issue 274 and pull request 383, which
# made it so in 2020; `--force` is there to number anew).
#
# Seen: if the new version lacks one subject, the index is written up to that subject and ends there: 4 subjects of 8, with
# status 0 and no message. (The subjects are walked by number until IndexError, and a subject that is gone raises
# IndexError.) Loading the same file once more adds the lost subjects under other numbers. From then on the trained model
# suggests the wrong subject for each of them.
#
# Who meets it: a library that loads a new release of its thesaurus in which a concept is gone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check annif==1.4.3
cd "$folder"
# Annif cuts text into words by NLTK, which wants a model of abbreviations: an empty one will do for a few plain words.
export NLTK_DATA=$folder/nltk_data ANNIF_PROJECTS=$folder/projects.cfg
mkdir -p nltk_data/tokenizers/punkt_tab/english
for file in collocations.tab sent_starters.txt abbrev_types.txt ortho_context.tab; do
    : > "nltk_data/tokenizers/punkt_tab/english/$file"
done
cat > projects.cfg << 'CONFIG'
[birds]
name=birds
language=en
backend=tfidf
analyzer=simple
limit=1
vocab=birds
CONFIG
subjects="albatross bittern cormorant dunlin eider fulmar gannet heron"
write() { # writes vocabulary $1 with the subjects that follow
    local name=$1
    shift
    echo "uri,label_en" > "$name"
    for subject; do echo "http://example.org/$subject,$subject"; done >> "$name"
}
for subject in $subjects; do
    for i in 1 2 3; do printf 'note of a %s near the sea\t<http://example.org/%s>\n' "$subject" "$subject"; done
done > train.tsv
write old.csv $subjects
write longer.csv $subjects ibis
write shorter.csv albatross bittern cormorant dunlin fulmar gannet heron ibis # without eider

annif="$folder/env/bin/annif"
index() { tail -n +2 data/vocabs/birds/subjects.csv | cut -d / -f 4 | cut -d , -f 1 | tr -d '\r' | paste -s -d ' '; }
mkdir notes
for subject in $subjects; do [ $subject = eider ] || echo "a $subject" > "notes/$subject.txt"; done
suggested() { # prints what is suggested for a note of each bird that all versions have
    "$annif" suggest birds notes/*.txt 2> messages | sed -n 's/^<[^>]*>\t\([a-z]*\).*/\1/p' | paste -s -d ' '
}
load() {
    "$annif" load-vocab birds "$1" > messages 2>&1
    echo "load-vocab $1: status $?"
    echo "  $(grep -v '^Loading' messages | paste -s -d ';')"
    echo "  index:       $(index)"
}
"$annif" --version
load old.csv
"$annif" train birds train.tsv > messages 2>&1
first=$(suggested)
echo "  suggestions: $first"
echo "control, a version with one subject more:"
load longer.csv
control=$(suggested)
echo "  suggestions: $control"
echo "a version with one subject less:"
load shorter.csv
short=$(index)
echo "the same file again:"
load shorter.csv
last=$(suggested)
echo "  asked for:   albatross bittern cormorant dunlin fulmar gannet heron"
echo "  suggestions: $last"
[ "$first" = "albatross bittern cormorant dunlin fulmar gannet heron" ]
[ "$control" = "$first" ]
[ "$short" = "albatross bittern cormorant dunlin" ]
[ "$last" = "albatross bittern cormorant dunlin gannet heron ibis" ]
echo "Seen: the index ends at the subject that is gone, and the next load gives its successors other numbers."
