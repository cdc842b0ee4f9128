//! Stores through a doorbell's window against its rotations, on the platform's own mapping. The
//! process stores twice, without a lock. Meanwhile the window is rotated twice. Six pages were
//! replaced before, so the second rotation drops all of them: after a barrier of all processors,
//! and after the uses that were announced.
//!
//! No page is dropped during its use. Each store reaches one page, the second one none that is
//! older.

use crate::prelude::*;
use tidegate::platform::Mapping;

const FIRST: &str = "the first store reached the first page";
const LAST: &str = "the first store reached the last page";
const BETWEEN: &str = "a store reached the page between them";

/// Rotations before the run.
const EARLIER: usize = 6;

const PLANTED: &[Bug] = bugs! {
    "no-barrier" => Product(PlantedFault::NoBarrierOfAllAgents),
        "pages are dropped without a barrier of all processors: the announcement is in a store buffer";
    "no-wait" => Product(PlantedFault::AnnouncedPageDropped),
        "pages are dropped although a processor announces its use";
};

pub(crate) const RACE: Race = Race {
    name: "store-against-rotation",
    about: "a process stores through a window that is rotated: no page is dropped during its use",
    marks: &[FIRST, LAST, BETWEEN],
    planted: PLANTED,
    shape: Shape::Model,
    plans: Plans::all(exhaustive(5_000_000)),
    prepare,
};

fn prepare(run: &Run<'_>) -> Prepared {
    let platform = run.platform.clone();
    let pages: Vec<Page> = (0..3).map(|_| platform.page(2).named("a doorbell")).collect();
    let mapping = Mapping::new(&platform, platform.page(2));
    for _ in 1..EARLIER {
        mapping.rotate(platform.page(2));
    }
    mapping.rotate(pages[0].clone());
    let system = mapping.clone();
    let next = pages[1..].to_vec();
    let main = move || {
        platform.spawn("system", move || {
            for page in next {
                system.rotate(page);
            }
        });
        mapping.store(0, 1);
        mapping.store(1, 1);
    };
    Prepared::new(main, move |end: &mut Verdict<'_>| {
        let found = |word| pages.iter().filter(|page| page.load(word) == 1).count();
        end.always("each store reaches one page", (found(0), found(1)) == (1, 1));
        let page_of = |word| pages.iter().position(|page| page.load(word) == 1).unwrap_or(0);
        let (first, second) = (page_of(0), page_of(1));
        end.always("the second store reaches no older page", first <= second);
        end.sometimes(FIRST, first == 0);
        end.sometimes(LAST, first == 2);
        end.sometimes(BETWEEN, first == 1 || second == 1);
    })
}
