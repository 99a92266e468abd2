//! A page of any figures, tables and text.

use std::fmt::Write as _;

use crate::ReportError;
use crate::chart::Figure;
use crate::html;
use crate::page::{Page, PageOptions};
use crate::svg::escaped;

/// What is on a page, from above.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sheet {
    /// What the page is called.
    pub title: String,
    /// What it is about, in a sentence; may be empty.
    pub lead: String,
    /// What follows.
    pub parts: Vec<Part>,
}

/// A part of a page.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant)] // a page has few parts
pub enum Part {
    /// What the following parts are about.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A table: names in the first column, numbers in the others.
    Table {
        /// The first row.
        head: Vec<String>,
        /// The others.
        rows: Vec<Vec<String>>,
    },
    /// A figure. Those that follow each other stand beside each other where there is room.
    Figure(Figure),
    /// Data that lies beside the page, which leads to it.
    Files(Vec<DataFile>),
    /// Other pages: what they are called, and where they are.
    Links(Vec<(String, String)>),
}

/// A file of data beside a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// What it is called.
    pub name: String,
    /// What is in it.
    pub text: String,
}

impl Sheet {
    /// Makes the page.
    pub fn page(&self, options: PageOptions) -> Result<Page, ReportError> {
        let mut body = String::new();
        html::head(&mut body, &self.title, &self.lead);
        let is_figure = |part: &Part| matches!(part, Part::Figure(_));
        for parts in self.parts.chunk_by(|a, b| is_figure(a) && is_figure(b)) {
            match &parts[0] {
                Part::Heading(text) => {
                    let _ = writeln!(body, "<h2>{}</h2>", escaped(text));
                }
                Part::Text(text) => {
                    let _ = writeln!(body, "<p class=\"text\">{}</p>", escaped(text));
                }
                Part::Table { head, rows } => html::table(&mut body, head, rows),
                Part::Figure(_) => html::figures(&mut body, figures(parts), options)?,
                Part::Files(files) if options.files => {
                    let files = files.iter().map(|file| (file.name.as_str(), file.name.as_str()));
                    html::links(&mut body, "As they were measured, without rounding: ", files);
                }
                Part::Files(_) => {}
                Part::Links(links) => {
                    let links = links.iter().map(|(name, to)| (name.as_str(), to.as_str()));
                    html::links(&mut body, "", links);
                }
            }
        }
        let html = html::document(&self.title, &body, options);
        let figures = figures(&self.parts).cloned().collect();
        Ok(Page { html, figures, files: files(&self.parts) })
    }
}

fn files(parts: &[Part]) -> Vec<DataFile> {
    let files = parts.iter().filter_map(|part| match part {
        Part::Files(files) => Some(files),
        _ => None,
    });
    files.flatten().cloned().collect()
}

fn figures(parts: &[Part]) -> impl Iterator<Item = &Figure> {
    parts.iter().filter_map(|part| match part {
        Part::Figure(figure) => Some(figure),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Chart;
    use crate::map::Map;
    use crate::{Bars, Spot};

    fn figure(name: &str, chart: Chart) -> Part {
        let (title, caption) = (name.to_owned(), format!("about {name}"));
        Part::Figure(Figure { name: name.to_owned(), title, caption, chart })
    }

    fn map(label: &str) -> Chart {
        let spots = vec![Spot { label: label.to_owned(), at: (0.5, 0.5) }];
        let grid = vec![0.0, 1.0];
        let values = vec![1.0, 2.0, 3.0, f64::NAN];
        Chart::Map(Map { columns: grid.clone(), rows: grid, values, spots, ..Map::default() })
    }

    #[test]
    fn parts_are_in_order_and_cannot_break_out() {
        let cells = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let sheet = Sheet {
            title: "a < b".to_owned(),
            lead: "lead".to_owned(),
            parts: vec![
                Part::Heading("first & last".to_owned()),
                Part::Text("<i>".to_owned()),
                Part::Table { head: cells(["", "loss"]), rows: vec![cells(["<x>", "0.5"])] },
                figure("one", Chart::Bars(Bars::default())),
                figure("two", Chart::Bars(Bars::default())),
                Part::Files(vec![DataFile { name: "m.csv".to_owned(), text: "x".to_owned() }]),
                Part::Links(vec![("A & B".to_owned(), "a\"b/index.html".to_owned())]),
            ],
        };
        let page = sheet.page(PageOptions { files: true, ..PageOptions::default() }).unwrap();
        let mut rest = page.html.as_str();
        for expected in [
            "<h1>a &lt; b</h1>",
            "<p class=\"lead\">lead</p>",
            "<h2>first &amp; last</h2>",
            "<p class=\"text\">&lt;i&gt;</p>",
            "<tr><th></th><th>loss</th></tr>",
            "<tr><td>&lt;x&gt;</td><td>0.5</td></tr>",
            "<figure id=\"one\">",
            "<a href=\"one.svg\">SVG</a>",
            "<figure id=\"two\">",
            "<a href=\"m.csv\">m.csv</a>",
            "<a href=\"a&quot;b/index.html\">A &amp; B</a>",
        ] {
            let place = rest.find(expected);
            assert!(place.is_some(), "{expected}");
            rest = &rest[place.unwrap()..];
        }
        assert_eq!(page.html.matches("<div class=\"figures\">").count(), 1, "beside each other");
        assert_eq!((page.figures.len(), page.files.len()), (2, 1));
        let alone = sheet.page(PageOptions::default()).unwrap().html;
        assert!(!alone.contains("m.csv"), "where there are no files nothing leads to them");
        assert!(!page.html.contains("<script"), "nothing moves without a map");
    }

    #[test]
    fn a_map_has_a_surface_that_cannot_break_out() {
        let sheet = Sheet { parts: vec![figure("m", map("</script><b>"))], ..Sheet::default() };
        let html = sheet.page(PageOptions::default()).unwrap().html;
        assert_eq!(html.matches("<canvas").count(), 1);
        // The data and the program.
        assert_eq!((html.matches("<script").count(), html.matches("</script>").count()), (2, 2));
        assert!(!html.contains("<b>"), "{html}");
    }
}
