//! What every page is made of: the frame around it, tables, and figures with what belongs to them.

use std::fmt::Write as _;

use crate::ReportError;
use crate::chart::Figure;
use crate::page::PageOptions;
use crate::surface;
use crate::svg::{escaped, style_sheet};

const STYLE: &str = include_str!("page.css");
const LIVE: &str = include_str!("page.js");

/// What tells pages of this program from others.
const GENERATOR: &str = "<meta name=\"generator\" content=\"hwa\">";

/// Whether a page was made by this program.
pub fn is_ours(html: &str) -> bool {
    // Pages of versions before the first had no such line.
    html.contains(GENERATOR) || html.contains("\n<footer>hwa ")
}

/// A whole page, around its body.
pub(crate) fn document(title: &str, body: &str, options: PageOptions) -> String {
    let mut scripts = String::new();
    // The first remembers the page as it came; the other changes it.
    if options.live {
        let _ = writeln!(scripts, "<script>{LIVE}</script>");
    }
    if options.live || body.contains(surface::MARK) {
        let _ = writeln!(scripts, "<script>{}</script>", surface::SCRIPT);
    }
    let (title, colours) = (escaped(title), style_sheet(".page"));
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         {GENERATOR}\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title} – hwa</title>\n<style>{colours}\n{STYLE}</style>\n</head>\n\
         <body class=\"page\">\n<main>\n{body}<footer>hwa {version}</footer>\n</main>\n\
         {scripts}</body>\n</html>\n"
    )
}

/// A title, and what the page is about.
pub(crate) fn head(body: &mut String, title: &str, lead: &str) {
    let _ = writeln!(body, "<h1>{}</h1>", escaped(title));
    if !lead.is_empty() {
        let _ = writeln!(body, "<p class=\"lead\">{}</p>", escaped(lead));
    }
}

/// Ways to other files, after some words: what they are called, and where they are.
pub(crate) fn links<'a>(
    body: &mut String,
    words: &str,
    links: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    let link = |(name, to)| format!("<a href=\"{}\">{}</a>", escaped(to), escaped(name));
    let links: Vec<String> = links.into_iter().map(link).collect();
    let _ = writeln!(body, "<p class=\"text\">{}{}</p>", escaped(words), links.join(", "));
}

/// A table: names in the first column, numbers in the others.
pub(crate) fn table(body: &mut String, head: &[String], rows: &[Vec<String>]) {
    let row = |body: &mut String, kind: &str, cells: &[String]| {
        body.push_str("<tr>");
        for cell in cells {
            let _ = write!(body, "<{kind}>{}</{kind}>", escaped(cell));
        }
        body.push_str("</tr>\n");
    };
    body.push_str("<div class=\"scroll\"><table>\n");
    row(body, "th", head);
    for cells in rows {
        row(body, "td", cells);
    }
    body.push_str("</table></div>\n");
}

/// Figures beside each other as far as there is room, with their captions.
pub(crate) fn figures<'a>(
    body: &mut String,
    figures: impl IntoIterator<Item = &'a Figure>,
    options: PageOptions,
) -> Result<(), ReportError> {
    body.push_str("<div class=\"figures\">\n");
    for figure in figures {
        let (svg, surface) = (figure.inline()?, surface::markup(figure));
        let (name, caption) = (escaped(&figure.name), escaped(&figure.caption));
        let files = match options.files {
            true => format!(" <a href=\"{name}.svg\">SVG</a> <a href=\"{name}.csv\">CSV</a>"),
            false => String::new(),
        };
        let _ = writeln!(
            body,
            "<figure id=\"{name}\">{svg}{surface}<figcaption>{caption}{files}</figcaption></figure>"
        );
    }
    body.push_str("</div>\n");
    Ok(())
}
