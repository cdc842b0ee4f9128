//! The corpus of the target `library` as a regression test.

mod replay;

use replay::run_corpus;

#[test]
fn a_program_with_the_c_library_leaves_nothing_and_harms_no_other() {
    run_corpus("library");
}
