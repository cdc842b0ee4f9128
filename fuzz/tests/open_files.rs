//! The corpora of the targets that count the open files of their process, as a regression test: a
//! program of its own, in which one target runs at a time.

mod replay;

use replay::run_corpus;

#[test]
fn hostile_messages_guests_and_programs_leave_no_open_file_and_harm_no_other() {
    run_corpus("messages");
    run_corpus("guests");
    run_corpus("library");
}
