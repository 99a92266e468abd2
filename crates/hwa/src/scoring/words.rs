//! A command as it is written: split into words as a shell does, but run without one.
//!
//! So nothing in the path that takes the place of `{weights}` can mean anything else than a path.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::script;

/// What the path takes the place of.
const PLACE: &str = "{weights}";
/// What a shell would do something about.
const OPERATORS: &str = "|&;<>$`";
/// What, beside the place, shows that the word is a text that somebody will take apart again.
const TEXT: &str = "'\"()";

/// A command with a place for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandLine {
    words: Vec<String>,
}

impl CommandLine {
    /// Reads a command.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let words = split(text)?;
        if words.is_empty() {
            return Err("it is empty".to_owned());
        }
        if let Some(home) = words.iter().find(|word| word.starts_with("~/")) {
            return Err(format!("{home}: only a shell knows whose `~` is; write the whole path"));
        }
        if !words.iter().any(|word| word.contains(PLACE)) {
            return Err(format!("{PLACE} is not in it: that is where the file is named"));
        }
        let is_text = |c: char| c.is_whitespace() || OPERATORS.contains(c) || TEXT.contains(c);
        if words.iter().any(|word| word.contains(PLACE) && word.contains(is_text)) {
            return Err(format!(
                "{PLACE} stands inside a longer text; make it a word of its own, for a shell \
                 like this: sh -c 'python eval.py \"$1\" | tail -1' sh {PLACE}"
            ));
        }
        Ok(Self { words })
    }

    /// The files that the command names, and what tells their versions apart: numbers of another
    /// version of a script are others.
    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        // Also those in what a shell is given, and after the sign of an option.
        let split = |c: char| c.is_whitespace() || "='\"".contains(c);
        let named = self.words.iter().flat_map(|word| word.split(split));
        let version = |name: &str| Some((name.to_owned(), script::version(Path::new(name))?));
        named.filter_map(version).collect()
    }

    /// The words for a file: the program, and what it is given.
    pub(crate) fn words_for(&self, file: &OsStr) -> Vec<OsString> {
        let of = |word: &String| {
            let mut parts = word.split(PLACE);
            let mut whole = OsString::from(parts.next().unwrap_or_default());
            for part in parts {
                whole.push(file);
                whole.push(part);
            }
            whole
        };
        self.words.iter().map(of).collect()
    }
}

/// Splits at white space. Single quotes keep what they hold; double quotes and backslashes do
/// what they do in a shell.
fn split(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut rest = text.chars();
    let unclosed = |quote: char| format!("a {quote} is not closed");
    while let Some(letter) = rest.next() {
        match letter {
            letter if letter.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let held = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or_else(|| unclosed('\''))? {
                        '\'' => break,
                        other => held.push(other),
                    }
                }
            }
            '"' => {
                let held = word.get_or_insert_default();
                loop {
                    match rest.next().ok_or_else(|| unclosed('"'))? {
                        '"' => break,
                        '\\' => match rest.next().ok_or_else(|| unclosed('"'))? {
                            escaped @ ('"' | '\\' | '$' | '`') => held.push(escaped),
                            other => held.extend(['\\', other]),
                        },
                        other => held.push(other),
                    }
                }
            }
            '\\' => {
                let escaped = rest.next().ok_or("it ends with a backslash")?;
                word.get_or_insert_default().push(escaped);
            }
            letter if OPERATORS.contains(letter) => {
                return Err(format!(
                    "`{letter}` is for a shell, and there is none; for one write: \
                     sh -c 'python eval.py \"$1\" | tail -1' sh {PLACE}"
                ));
            }
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        for (text, words) in [
            ("python eval.py {weights}", &["python", "eval.py", "{weights}"][..]),
            ("  a\t'b c'  \"d e\" ", &["a", "b c", "d e"]),
            (r#"a 'it''s' "say \"hi\" \n" \ x"#, &["a", "its", r#"say "hi" \n"#, " x"]),
            ("a '' \"\"", &["a", "", ""]),
            ("sh -c 'x \"$1\" | y' sh", &["sh", "-c", "x \"$1\" | y", "sh"]),
            ("", &[]),
        ] {
            assert_eq!(split(text).unwrap(), words, "{text}");
        }
    }

    #[test]
    fn a_path_stays_one_word_whatever_is_in_it() {
        let command = CommandLine::parse("eval --file={weights} {weights}").unwrap();
        let hostile = "/tmp/a b; rm -rf ~ '$(x)'/w.safetensors";
        let words = command.words_for(OsStr::new(hostile));
        assert_eq!(words, ["eval", &format!("--file={hostile}"), hostile]);
    }

    #[cfg(unix)]
    #[test]
    fn a_path_need_not_be_text() {
        use std::os::unix::ffi::OsStrExt;
        let command = CommandLine::parse("eval a={weights}b").unwrap();
        let words = command.words_for(OsStr::from_bytes(b"/x\xff"));
        assert_eq!(words[1].as_bytes(), b"a=/x\xffb");
    }

    #[test]
    fn what_would_not_do_what_it_says_is_refused() {
        for (text, told) in [
            ("python eval.py", "{weights} is not in it"),
            ("", "it is empty"),
            ("a {weights} | tail -1", "`|` is for a shell"),
            ("$HOME/eval {weights}", "`$` is for a shell"),
            ("a 'b {weights}", "a ' is not closed"),
            ("a \"b {weights}", "a \" is not closed"),
            ("a {weights} \\", "ends with a backslash"),
            ("sh -c 'eval {weights}'", "inside a longer text"),
            ("env W={weights} sh -c 'echo {weights} 1'", "inside a longer text"),
            ("sh -c 'cat<{weights}'", "inside a longer text"),
            ("python -c \"print('{weights}')\"", "inside a longer text"),
            ("python -c 'f({weights})'", "inside a longer text"),
            ("~/eval {weights}", "write the whole path"),
        ] {
            let error = CommandLine::parse(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
