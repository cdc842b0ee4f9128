//! The links of the documents: each relative link names a file that exists, and each fragment a
//! heading of that file. Links to other hosts are not followed. The guide has no chapter outside of
//! its summary.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::finding::Finding;
use crate::tree;

const FOLDERS: &[&str] = &["crates", "docs", "decisions", "spec", "workloads"];
/// The pages of the guide.
const GUIDE: &str = "docs/guide/src";

/// A document: its links with their lines, and the fragments of its headings.
#[derive(Default)]
struct Page {
    links: Vec<(usize, String)>,
    fragments: Vec<String>,
}

/// Checks every document.
pub fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let mut pages = BTreeMap::new();
    for folder in FOLDERS {
        for file in tree::files(root, folder, &["md"])? {
            pages.insert(file.path, Page::of(&file.text));
        }
    }
    for file in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        for file in tree::files(root, file, &["md"])? {
            pages.insert(file.path, Page::of(&file.text));
        }
    }
    let exists = |path: &Path| root.join(path).exists();
    let mut findings = broken(&pages, exists);
    findings.extend(unlisted(&pages));
    Ok(findings)
}

impl Page {
    fn of(text: &str) -> Page {
        let mut page = Page::default();
        let mut heading: Option<String> = None;
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    let line = text[..range.start].matches('\n').count();
                    page.links.push((line, dest_url.into_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    page.fragments.extend(heading.take().map(|words| fragment(&words)));
                }
                Event::Text(words) | Event::Code(words) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&words);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

/// The fragment that names a heading, as the renderers of Markdown make it.
fn fragment(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn broken(pages: &BTreeMap<PathBuf, Page>, exists: impl Fn(&Path) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, page) in pages {
        for (line, link) in &page.links {
            // A path of Rust items is a link of rustdoc, which checks it.
            if link.contains("://") || link.starts_with("mailto:") || link.contains("::") {
                continue;
            }
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => resolve(path, file),
            };
            if !exists(&target) {
                let what = format!("no file `{}` for the link `{link}`", target.display());
                findings.push(Finding::at(path, *line, what));
                continue;
            }
            let known = pages.get(&target).map(|page| &page.fragments);
            if !fragment.is_empty() && known.is_some_and(|all| !all.iter().any(|f| f == fragment)) {
                let what = format!("no heading `#{fragment}` in `{}`", target.display());
                findings.push(Finding::at(path, *line, what));
            }
        }
    }
    findings
}

/// Chapters that the summary does not link.
fn unlisted(pages: &BTreeMap<PathBuf, Page>) -> Vec<Finding> {
    let summary = Path::new(GUIDE).join("SUMMARY.md");
    let Some(listed) = pages.get(&summary) else { return Vec::new() };
    let listed: Vec<PathBuf> =
        listed.links.iter().map(|(_, link)| resolve(&summary, link)).collect();
    let chapters = pages.keys().filter(|path| path.starts_with(GUIDE) && **path != summary);
    let missing = chapters.filter(|path| !listed.contains(path));
    missing.map(|path| Finding::of_file(path, "SUMMARY.md does not list this chapter")).collect()
}

/// The path of `link`, which is in the document `from`.
fn resolve(from: &Path, link: &str) -> PathBuf {
    let mut path = from.parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => _ = path.pop(),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pages: &[(&str, &str)]) -> Vec<String> {
        let pages: BTreeMap<PathBuf, Page> =
            pages.iter().map(|(path, text)| (PathBuf::from(path), Page::of(text))).collect();
        let exists = |path: &Path| pages.contains_key(path) || path == Path::new("docs/a.png");
        let mut findings = broken(&pages, exists);
        findings.extend(unlisted(&pages));
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn files_and_headings_are_found() {
        let one =
            "# One\n\n[b](guide/b.md#two-words) ![a](a.png) [self](#one) [web](https://x.org/y)\n";
        let found = check(&[("docs/one.md", one), ("docs/guide/b.md", "## Two `words`!\n")]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_link_without_its_file_or_heading_is_a_finding() {
        let one =
            "text\n\n[gone](../gone.md) and [no heading](two.md#three)\n\n```\n[code](x.md)\n```\n";
        assert_eq!(
            check(&[("docs/one.md", one), ("docs/two.md", "# Two\n")]),
            [
                "docs/one.md:3: no file `gone.md` for the link `../gone.md`",
                "docs/one.md:3: no heading `#three` in `docs/two.md`",
            ]
        );
    }

    #[test]
    fn a_chapter_outside_of_the_summary_is_a_finding() {
        let found = check(&[
            ("docs/guide/src/SUMMARY.md", "- [One](one.md)\n"),
            ("docs/guide/src/one.md", ""),
            ("docs/guide/src/two.md", ""),
        ]);
        assert_eq!(found, ["docs/guide/src/two.md: SUMMARY.md does not list this chapter"]);
    }
}
