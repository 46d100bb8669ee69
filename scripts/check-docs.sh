#!/usr/bin/env bash
# Checks the references of the documentation:
#   - every rule of docs/wire.md that is cited exists, once;
#   - every relative link of a *.md file leads to a file, and to a heading of it;
#   - every section of docs/ that is cited by its heading exists;
#   - every path of the tree that a *.md file or a comment names in backquotes exists (CHANGELOG.md may name those of the past);
#   - every error text in the troubleshooting table of docs/guide.md stands in the code.
. "$(dirname "$0")/lib.sh"

# sources NAME...: files of the tree whose names fit, without what cargo builds
sources() {
    local name names=()
    for name; do names+=(-o -name "$name"); done
    find . \( -name target -o -name .git -o -name node_modules \) -prune -o -type f \( "${names[@]:1}" \) -print
}

# Pages, without the pieces in bench that docs/benchmarks.md is made of
pages() { sources '*.md' | grep -v '^./bench/src/'; }

# Files that may cite or name: sources, pages, and scripts, which have no ending in vm
texts() {
    sources '*.rs' '*.md' '*.sh' '*.toml' '*.c' '*.h' '*.yml' Makefile
    find vm .ci -type f
}

# joined_text WORD: files with this word, each comment in one line
joined_text() {
    texts | xargs grep -lF -e "$1" | xargs cat |
        sed -E 's,^ *(//[/!]?|#) ?, ,' | tr -s '\n ' ' '
}

# Citations are `wire.md 6.4`, `wire.md 3.2, 4.2` and `wire.md 2 to 5 and 7`, and may continue in the next line of a comment.
# The wire's own pages cite (6.4), or `| 6.4 |` at the end of a table's line.
cited_rules() {
    {
        joined_text wire.md |
            grep -oE 'wire\.md[)`]? [0-9]+(\.[0-9]+)?((,| and|, and| to| or) [0-9]+(\.[0-9]+)?)*' |
            sed -E 's/^wire\.md[)`]? //' | grep -oE '[0-9]+(\.[0-9]+)?'
        grep -ohE '\([0-9]+\.[0-9]+\)|\| [0-9]+\.[0-9]+ \|$' docs/wire.md docs/wire/*.md | tr -d '()| '
    } | sort -u
}

rules() {
    local headings twice unknown
    headings=$(sed -nE 's/^#{2,3} ([0-9]+(\.[0-9]+)?) .*/\1/p' docs/wire.md docs/wire/*.md | sort)
    twice=$(uniq -d <<<"$headings")
    [[ -z $twice ]] || die "docs/wire.md and docs/wire have these numbers twice: ${twice//$'\n'/ }"
    # a form that would not be checked
    if texts | xargs grep -nE 'wire\.md[)`]?,? (section|rule|§) ?[0-9]|wire\.md[)`]?, [0-9]|§ ?[0-9]+\.[0-9]' | grep -v '^./scripts/check-docs.sh:'; then
        die "the lines above cite wire.md in another form than: wire.md 6.4"
    fi
    unknown=$(comm -13 <(echo "$headings") <(cited_rules))
    [[ -z $unknown ]] || die "cited as rules of wire.md, and no heading of docs/wire.md or docs/wire: ${unknown//$'\n'/ }"
}

# A heading as the anchor that links to it.
anchors() { sed -nE 's/^#+ (.*)/\L\1/p' "$1" | sed -E 's/[^a-z0-9_ -]//g; s/ /-/g'; }

links() {
    local file link to bad=0
    while read -r file; do
        while read -r link; do
            to=${link%%#*}
            to=${to:+${file%/*}/$to}
            if [[ ! -e ${to:-$file} ]]; then
                say "$file: link to $link, which does not exist"
                bad=1
            elif [[ $link == *#* ]] && ! anchors "${to:-$file}" | grep -xF -e "${link#*#}" >/dev/null; then
                say "$file: link to $link, and there is no such heading"
                bad=1
            fi
        done < <(grep -oE '\]\([^) ]+' "$file" | sed 's/^](//' | grep -vE '^[a-z]+:' || true)
    done < <(pages)
    [[ $bad -eq 0 ]] || die "the links above lead nowhere"
}

# Sections are cited as `performance.md, "Cold memory"`, by their heading or a part of it.
sections() {
    local page section bad=0
    while IFS=$'\t' read -r page section; do
        if ! sed -nE 's/^#+ //p' "docs/$page.md" | grep -F -e "$section" >/dev/null; then
            say "docs/$page.md, \"$section\" is cited, and there is no such heading"
            bad=1
        fi
    done < <(joined_text .md | grep -oE '(architecture(/[a-z]+)?|benchmarks|concepts|glossary|guide|performance|testing|tools|wire)\.md\)?, "[^"]+"' |
        sed -E 's/\.md\)?, "/\t/; s/"$//' | sort -u)
    [[ $bad -eq 0 ]] || die "the sections above do not exist"
}

paths() {
    local file path bad=0
    while read -r file; do
        while read -r path; do
            if [[ ! -e $path && ! -e ${file%/*}/$path && ! -e ${file%/src/*}/$path ]]; then
                say "$file: names $path, which does not exist"
                bad=1
            fi
        done < <(grep -oE '`(async|bench|bins|core|docs|examples|ffi|freestanding|gantt|scripts|sim|soak|testkit|vm)/[A-Za-z0-9_./-]+(:[0-9]+)?`' "$file" | sed -E 's/`//g; s/:[0-9]+$//' | sort -u || true)
    done < <(texts | grep -vE '^./(CHANGELOG.md$|bench/src/.*\.md$)')
    [[ $bad -eq 0 ]] || die "the paths above do not exist"
}

# The error texts that docs/guide.md quotes, cut where names and numbers stand.
error_texts() {
    local piece bad=0
    while read -r piece; do
        if [[ -n $piece ]] && ! grep -rqF --include='*.rs' -e "$piece" core/src ffi bins/src; then
            say "docs/guide.md: no error text has \"$piece\""
            bad=1
        fi
    done < <(sed -n '/^## Troubleshooting/,$p' docs/guide.md | grep '^| `' | cut -d '|' -f 2 | grep -oE '`[^`]+`' | tr -d '`' | sed 's/…/\n/g')
    [[ $bad -eq 0 ]] || die "the texts above do not exist"
}

rules
links
sections
paths
error_texts
