//! What a workload file means, and what is said about mistakes in one. The files that come with the
//! project are read in `tests/workload/workload_files.rs`.

use super::*;
use crate::expect::Metric;
use crate::model::{Arg, CommandKind, Init, OpKind};
use tidegate_programs::ProgramId;

fn good(text: &str) -> Workload {
    parse(text, "w.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn bad(text: &str) -> String {
    parse(text, "w.toml").expect_err("this has mistakes").to_string()
}

const SMALL: &str = r#"
[let]
length = 3
[[buffer]]
name = "a"
bytes = 4096
[[fence]]
name = "done"
[[queue]]
name = "copy"
engine = "copy"
program = [{ signal = "done", value = 1 }]
"#;

#[test]
fn a_queues_program_is_a_thread_that_feeds_it() {
    let workload = good(SMALL);
    assert_eq!(workload.name, "w");
    assert_eq!(workload.threads.len(), 1);
    assert_eq!(workload.threads[0].queue, Some(crate::model::QueueId(0)));
    let op = &workload.threads[0].body[0];
    assert!(matches!(op.kind, OpKind::Signal { .. }));
    assert_eq!(workload.place(op.span), "w.toml:12:12");
}

#[test]
fn templates_share_one_body_and_differ_in_index() {
    let text = SMALL.replace(
        "program = [{ signal = \"done\", value = 1 }]",
        "count = 3\nprogram = [{ signal = \"done\", value = \"index + 1\" }]",
    );
    let workload = good(&text);
    assert_eq!(workload.queues.len(), 3);
    assert_eq!(workload.queues[2].name, "copy[2]");
    let indexes: Vec<i128> = workload.threads.iter().map(|thread| thread.variables[0]).collect();
    assert_eq!(indexes, [0, 1, 2]);
    assert!(std::sync::Arc::ptr_eq(&workload.threads[0].body, &workload.threads[2].body));
}

#[test]
fn loops_conditions_and_variables_get_slots_of_their_own() {
    let workload = good(&format!(
        "{SMALL}
[[thread]]
name = \"t\"
variables = {{ frame = 4 }}
program = [
  {{ loop = \"i\", from = 1, to = \"length\", do = [
    {{ when = \"i > 1\", do = [{{ set = \"frame\", to = \"frame + i\" }}], else = [{{ sleep_us = 5 }}] }},
  ] }},
]"
    ));
    let thread = &workload.threads[1];
    assert_eq!(thread.variables, [0, 4, 0]);
    assert_eq!(*thread.variable_names, ["index", "frame", "i"]);
}

#[test]
fn a_dispatch_has_every_argument_in_order() {
    let text = SMALL.replace("engine = \"copy\"", "engine = \"3d\"").replace(
        "{ signal = \"done\", value = 1 }",
        r#"{ dispatch = "saxpy", groups = 4, args = { n = "length * 4", a = 2, y = { buffer = "a", offset = 64 }, x = "a" } }"#,
    );
    let workload = good(&text);
    let OpKind::Submit { commands, .. } = &workload.threads[0].body[0].kind else { panic!() };
    let CommandKind::Dispatch { program, args, groups } = &commands[0].kind else { panic!() };
    assert_eq!(*program, ProgramId::SAXPY);
    assert!(groups.is_some());
    assert_eq!(args.0.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["x", "y", "n", "a"]);
    assert!(matches!(args.get("n"), Some(Arg::Integer(n)) if n.constant() == Some(12)));
    assert_eq!(args.get("a"), Some(&Arg::Float(2.0)));
    assert!(matches!(args.get("y"), Some(Arg::Buffer { .. })));
}

#[test]
fn u64_values_can_be_written_in_quotes_and_in_hexadecimal() {
    let workload = good(&SMALL.replace("value = 1", "value = \"0xffff_ffff_ffff_ffff\""));
    let OpKind::Signal { value, .. } = &workload.threads[0].body[0].kind else { panic!() };
    assert_eq!(value.constant(), Some(i128::from(u64::MAX)));
}

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    assert_eq!(
        bad(&SMALL.replace("signal = \"done\"", "signal = \"dome\"")),
        "w.toml:12:24: unknown fence 'dome'; did you mean 'done'?"
    );
    assert_eq!(
        bad(&SMALL.replace("engine", "enigne")),
        "w.toml:9:1: [[queue]] needs the field 'engine'\n\
         w.toml:11:1: unknown field 'enigne' in [[queue]]; did you mean 'engine'?"
    );
    assert_eq!(
        bad(&SMALL.replace("value = 1", "value = \"lenght - 1\"")),
        "w.toml:12:40: unknown name 'lenght'; did you mean 'length'?"
    );
    assert_eq!(
        bad(&SMALL.replace("signal = \"done\"", "singal = \"done\"")),
        "w.toml:12:12: 'singal' is no operation; did you mean 'signal'?"
    );
}

#[test]
fn arguments_are_checked_against_the_program() {
    let dispatch = |args: &str| {
        bad(&SMALL.replace("engine = \"copy\"", "engine = \"compute\"").replace(
            "{ signal = \"done\", value = 1 }",
            &format!("{{ dispatch = \"saxpy\", args = {{ {args} }} }}"),
        ))
    };
    assert!(dispatch("x = \"a\", y = \"a\", n = 4").contains("needs the field 'a'"));
    assert!(
        dispatch("x = \"a\", y = \"a\", n = 4, a = \"2\"")
            .contains("a number is needed, not a text")
    );
    assert!(
        dispatch("x = \"a\", y = 3, n = 4, a = 1.0")
            .contains("the name of a buffer in quotes is needed")
    );
    assert!(dispatch("x = \"a\", y = \"a\", n = 4, a = 1.0, b = 2").contains("unknown field 'b'"));
    let text =
        SMALL.replace("{ signal = \"done\", value = 1 }", "{ dispatch = \"sacspy\", args = {} }");
    assert!(bad(&text).contains("there is no program 'sacspy' to dispatch; did you mean 'saxpy'?"));
}

#[test]
fn a_copy_that_leaves_its_buffer_is_a_warning_because_the_gpu_faults() {
    let workload = good(&SMALL.replace(
        "{ signal = \"done\", value = 1 }",
        "{ copy = \"a\", to = \"a\", dst_offset = 8, bytes = 4096 }",
    ));
    assert_eq!(workload.warnings.len(), 1);
    assert_eq!(workload.warnings[0].line, 12);
    assert!(
        workload.warnings[0]
            .text
            .starts_with("queue 'copy' writes bytes 8 to 4104 of 'a', which has 4096")
    );
}

#[test]
fn constants_can_be_given_from_outside() {
    let text = SMALL.replace("length = 3", "length = 3\ntwice = \"2 * length\"");
    let text = text.replace("bytes = 4096", "bytes = \"4 * twice\"");
    let with = |given: &[(&str, i128)]| {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        parse_with(&text, "w.toml", &given).map(|workload| workload.buffers[0].bytes)
    };
    assert_eq!(with(&[]).unwrap(), 24);
    assert_eq!(with(&[("length", 5)]).unwrap(), 40);
    assert_eq!(with(&[("length", 5), ("length", 7)]).unwrap(), 56, "the last one counts");
    let wrong = with(&[("lenght", 5)]).unwrap_err().to_string();
    assert!(wrong.contains("[let] has no constant 'lenght'; did you mean 'length'?"), "{wrong}");
}

#[test]
fn a_workload_says_which_constant_makes_it_longer() {
    assert_eq!(good(SMALL).scale, None);
    let scaled = |name: &str| format!("scales_with = \"{name}\"\n{SMALL}");
    let scale = good(&scaled("length")).scale.unwrap();
    assert_eq!((scale.constant.as_str(), scale.value), ("length", 3));
    let wrong = bad(&scaled("lenght"));
    assert!(
        wrong.contains("w.toml:1:15: 'scales_with': [let] has no constant 'lenght'"),
        "{wrong}"
    );
    let wrong = bad(&scaled("length").replace("length = 3", "length = 0"));
    assert!(wrong.contains("'length' is 0; 1 or more is needed"), "{wrong}");
}

#[test]
fn nothing_to_do_is_said() {
    assert!(bad("name = \"empty\"\n").contains("nothing to do"));
}

#[test]
fn a_duration_has_the_unit_of_its_field() {
    let workload = good(&SMALL.replace(
        "program = [{ signal = \"done\", value = 1 }]",
        r#"program = [{ delay_ns = 7 }, { delay_us = 7 }, { work_ns = 8 }, { work_ms = 8 },
                       { sleep_ns = 9 }, { sleep_us = "length" }]"#,
    ));
    let ns = |op: &crate::model::Op| match &op.kind {
        OpKind::Sleep { ns } => ns.constant(),
        OpKind::Submit { commands, .. } => match &commands[0].kind {
            CommandKind::Delay { ns } | CommandKind::Work { ns, .. } => ns.constant(),
            _ => None,
        },
        _ => None,
    };
    let found: Vec<Option<i128>> = workload.threads[0].body.iter().map(ns).collect();
    assert_eq!(found, [7, 7_000, 8, 8_000_000, 9, 3_000].map(Some));
}

#[test]
fn a_display_that_cannot_be_is_refused_with_what_to_change() {
    let display = |count: u32, fields: &str| {
        let text = format!(
            "[[buffer]]\nname = \"back\"\nbytes = 4096\ncount = {count}\n[[queue]]\nname = \"q\"\n\
             engine = \"3d\"\nprogram = [{{ present = 1 }}]\n[display]\nqueue = \"q\"\n\
             buffer = \"back\"\n{fields}\n"
        );
        parse(&text, "w.toml").map(|workload| workload.display.map(|d| (d.count, d.refresh_ns)))
    };
    let size = "width = 32\nheight = 32";
    assert_eq!(display(2, size).unwrap(), Some((2, 16_667_000)));
    for (count, fields, words) in [
        (2, "width = 32\nheight = 32\nrefresh_us = 0", "a refresh of 0 us; give at least 1"),
        (2, "width = 32\nheight = 32\nlatency = 0", "a latency of 0 presents; give at least 1"),
        (1, size, "'back' is 1 of [[buffer]]; a display has from 2 to 16"),
        (17, size, "'back' is 17 of [[buffer]]; a display has from 2 to 16"),
        (2, "width = 32\nheight = 33", "a picture has 4224 bytes, and 'back' has 4096"),
        (2, "width = 0\nheight = 33", "'width' of [display] is 0; give at least 1"),
    ] {
        let text = display(count, fields).expect_err(words).to_string();
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn references_to_groups_need_an_index() {
    let text = SMALL.replace("name = \"done\"", "name = \"done\"\ncount = 4");
    assert!(bad(&text).contains("'done' is a group of 4; give an index: done[index]"));
    let text = text.replace("signal = \"done\"", "signal = \"done[4]\"");
    assert!(bad(&text).contains("fence 'done' has the members 0 to 3"));
}

#[test]
fn hostile_texts_are_answered_and_not_obeyed() {
    let deep = format!("program = [{}", "{ when = \"1\", do = [".repeat(200));
    assert!(!bad(&SMALL.replace("program = [", &deep)).is_empty());
    assert!(
        bad(&SMALL.replace("bytes = 4096", "bytes = 170141183460469231731687303715884105728"))
            .contains("w.toml:6")
    );
    assert!(
        bad(&SMALL.replace("name = \"done\"", "name = \"done\"\ncount = 4000000000"))
            .contains("more than 65536")
    );
    let endless = SMALL.replace(
        "{ signal = \"done\", value = 1 }",
        "{ loop = \"i\", from = 0, to = 9223372036854775807, do = [{ signal = \"done\", value = 1 }] }",
    );
    assert!(bad(&endless).contains("more than 10000000 times"));
    let elsewhere =
        format!("{SMALL}[[frame]]\nfile = \"../x.png\"\nbuffer = \"a\"\nwidth = 2\nheight = 2\n");
    assert!(bad(&elsewhere).contains("without a folder"));
    assert!(bad(&SMALL.replace("value = 1", "value = \"1 / 0 +\"")).contains("ends too early"));
    assert!(bad("\u{0}").contains("not valid TOML"));
}

#[test]
fn what_two_verbs_mean_is_not_guessed() {
    let text = SMALL.replace(
        "{ signal = \"done\", value = 1 }",
        "{ signal = \"done\", wait = \"done\", value = 1 }",
    );
    assert!(bad(&text).contains("an operation has one verb"));
    let text = SMALL.replace(
        "{ signal = \"done\", value = 1 }",
        "{ execute = [{ signal = \"done\", value = 1 }] }",
    );
    assert!(bad(&text).contains("'signal' cannot stand inside 'execute'"));
}

#[test]
fn a_mistake_in_an_operation_is_answered_with_what_to_change() {
    let saxpy = r#"dispatch = "saxpy", args = { x = "a", y = "a", n = 4, a = 1.0 }"#;
    for (operation, words) in [
        ("{ barrier = 1 }".to_owned(), "there is no 'barrier'; commands of one queue run in order"),
        ("{ map = \"a\" }".to_owned(), "there is no 'map'; a CPU write is { map_write"),
        ("{ present = 5 }".to_owned(), "'present' is the sync interval: give it from 0 to 4"),
        ("{ present = 1 }".to_owned(), "nothing is presented without a display"),
        ("{ set = \"x\", to = 1 }".to_owned(), "unknown variable 'x'; declare it: variables = { x"),
        (
            "{ sleep_ms = 3600001 }".to_owned(),
            "w.toml:12:25: 'sleep_ms' must be between 0 and an hour",
        ),
        ("{ sleep_ns = -1 }".to_owned(), "'sleep_ns' must be between 0 and an hour"),
        ("{ delay_us = 170141183460469231731687303715884105727 }".to_owned(), "and an hour"),
        ("{ execute = [] }".to_owned(), "'execute' has no commands; put at least one into it"),
        ("{ execute = [7] }".to_owned(), "a command must be a table { … }, not a whole number"),
        ("{ cpu_wait_all = [] }".to_owned(), "'cpu_wait_all' waits for nothing; name at least one"),
        ("{ cpu_wait_all = [7] }".to_owned(), "a fence that is waited for must be a table"),
        (
            "{ cpu_wait_all = 7 }".to_owned(),
            "'cpu_wait_all' of 'cpu_wait_all' must be an array [ … ]",
        ),
        (
            "{ cpu_wait_all = [{ fence = \"done\", value = 1 }], chosen = \"index\" }".to_owned(),
            "'chosen' belongs to cpu_wait_any",
        ),
        ("{ map_write = \"a\", values_u32 = [-1] }".to_owned(), "-1"),
        (
            "{ map_write = \"a\", values_f32 = [true] }".to_owned(),
            "must be made of numbers, not true or false",
        ),
        ("{ fill = \"a\", bytes = 0, value = 1 }".to_owned(), "a length of 0 bytes does nothing"),
        (
            "{ signal = \"done\", value = true }".to_owned(),
            "an expression in quotes is needed, not true or false",
        ),
        (
            "{ signal = \"done\", value = \"done\" }".to_owned(),
            "write completed(done) for its value",
        ),
        ("{ signal = 7, value = 1 }".to_owned(), "w.toml:12:23: "),
        (format!("{{ {saxpy}, groups = [] }}"), "'groups' needs one to three numbers"),
        (format!("{{ {saxpy}, groups = [1, 2, 3, 4] }}"), "'groups' needs one to three numbers"),
        ("{ dispatch = \"saxpy\", args = 3 }".to_owned(), "'args' of 'saxpy' must be a table"),
        (
            "{ when = 1, do = [{ set = 7, to = 1 }] }".to_owned(),
            "'set' of 'set' must be a text in quotes",
        ),
        (
            "{ loop = \"a b\", from = 0, to = 1, do = [] }".to_owned(),
            "'a b' cannot be the name of an index",
        ),
    ] {
        let text = SMALL
            .replace("engine = \"copy\"", "engine = \"compute\"")
            .replace("{ signal = \"done\", value = 1 }", &operation);
        let said = bad(&text);
        assert!(said.contains(words), "{operation}: {said}");
    }
    let in_thread = bad(&format!(
        "{SMALL}[[thread]]\nname = \"t\"\nprogram = [{{ signal = \"done\", value = 1 }}]\n"
    ));
    assert!(in_thread.contains("'signal' in a [[thread]] needs 'queue'"), "{in_thread}");
}

#[test]
fn a_mistake_in_a_declaration_is_answered_with_what_to_change() {
    let with = |table: &str, fields: &str| format!("{SMALL}[[{table}]]\n{fields}\n");
    let buffer = |fields: &str| with("buffer", &format!("name = \"b\"\nbytes = 64\n{fields}"));
    let frame = "buffer = \"a\"\nwidth = 2\nheight = 2";
    let png = format!("[[frame]]\nfile = \"x.png\"\n{frame}\n");
    for (text, words) in [
        (
            SMALL.replace("length = 3", "\"a b\" = 3"),
            "w.toml:3:1: 'a b' cannot be a constant's name",
        ),
        (SMALL.replace("length = 3", "length = \"1 / 0\""), "w.toml:3:10: constant 'length': "),
        (
            SMALL.replace("[let]\nlength = 3", "let = 3"),
            "[let] must be a table { … }, not a whole number",
        ),
        (with("fence", "name = \"a b\""), "'a b' cannot be a name; begin with a letter"),
        (with("fence", "name = \"f\"\ncount = 0"), "fence 'f' has a count of 0; leave it out"),
        (
            with("fence", "name = \"f\"\ncount = 5000000000"),
            "'count' of [[fence]]: 5000000000 is too large",
        ),
        (with("fence", "name = \"done\""), "a fence 'done' is already declared"),
        (
            with("fence", "name = 7"),
            "'name' of [[fence]] must be a text in quotes, not a whole number",
        ),
        (SMALL.replace("bytes = 4096", "bytes = 0"), "a buffer of 0 bytes; give at least 4"),
        (SMALL.replace("bytes = 4096", "bytes = 6"), "must be a multiple of 4"),
        (SMALL.replace("bytes = 4096", "bytes = -4"), "'bytes' of [[buffer]]: "),
        (buffer("fill = 1\nvalues_u32 = [1]"), "'fill' and 'values_u32' are both given"),
        (
            buffer("values_f32 = [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]"),
            "has 68 bytes and does not fit",
        ),
        (buffer("sequence_f32 = [1.0]"), "'sequence_f32' needs [start, step]"),
        (buffer("sequence_u32 = [1, 2, 3]"), "'sequence_u32' needs [start, step]"),
        (buffer("random_f32 = 7"), "'random_f32' must be a table { … }, not a whole number"),
        (
            buffer("random_f32 = { low = \"0\" }"),
            "'low' of 'random_f32' must be a number, not a text",
        ),
        (buffer("random_f32 = { lo = 0 }"), "unknown field 'lo' in 'random_f32'"),
        (
            SMALL.replace("engine = \"copy\"", "engine = \"copi\""),
            "'engine' cannot be 'copi'; did you mean 'copy'?",
        ),
        (
            with("thread", "name = \"t\"\nvariables = 7\nprogram = []"),
            "'variables' must be a table",
        ),
        (
            with("thread", "name = \"t\"\nvariables = { index = 7 }\nprogram = []"),
            "'index' cannot be a variable here; choose another name",
        ),
        (
            with("thread", "name = \"t\"\nvariables = { x = \"1 / 0\" }\nprogram = []"),
            "w.toml:15:19: ",
        ),
        (with("frame", &format!("file = \"x.bmp\"\n{frame}")), "'x.bmp' must be a file name"),
        (format!("{SMALL}{png}{png}"), "'x.png' is written twice"),
        (
            format!("{SMALL}[display]\nqueue = \"copy\"\nbuffer = \"b\"\nwidth = 8\nheight = 8\n"),
            "unknown buffer 'b'; did you mean 'a'?",
        ),
        (
            format!("{SMALL}[display]\nqueue = \"copy\"\nbuffer = \"a\"\nwidth = 8\nheight = 8\n")
                .replace("bytes = 4096", "bytes = 4096\ncount = 2")
                .replace("engine = \"copy\"", "engine = \"copy\"\nsubmission = \"user\""),
            "a user-mode queue presents nothing; give it submission = \"hardware\"",
        ),
        (
            format!("fence = 7\n{}", SMALL.replace("[[fence]]", "[[fenze]]")),
            "must be an array [ … ]",
        ),
    ] {
        let said = bad(&text);
        assert!(said.contains(words), "{words}: {said}");
    }
    let made = |fields: &str| good(&buffer(fields)).buffers[1].init.clone();
    assert_eq!(made("random_f32 = {}"), Init::RandomF32 { seed: 1, low: 0.0, high: 1.0 });
    assert_eq!(
        made("random_f32 = { seed = \"length\", low = -2, high = 2.5 }"),
        Init::RandomF32 { seed: 3, low: -2.0, high: 2.5 }
    );
    assert_eq!(made("sequence_f32 = [1, 0.5]"), Init::SequenceF32 { start: 1.0, step: 0.5 });
}

#[test]
fn a_mistake_in_an_expectation_is_answered_with_what_to_change() {
    for (fields, words) in [
        (
            "says = \"x\"",
            "[[expect]] needs one of: fence, condition, buffer, check, picture, metric",
        ),
        (
            "fence = \"done\"\nvalue = 1\nbuffer = \"a\"",
            "one [[expect]] has 'fence' and 'buffer'; split it",
        ),
        (
            "fence = \"done\"\nvalue = 1\nunder = [\"usr\"]",
            "'under' cannot hold \"usr\"; did you mean 'user'?",
        ),
        ("fence = \"done\"\nvalue = 1\nunder = [7]", "'under' cannot hold 7"),
        (
            "buffer = \"a\"",
            "an expected buffer needs one of: equals, equals_f32, same_as, same_as_now",
        ),
        ("metric = \"queue_idle_ns\"\nat_most = 5", "'metric' cannot be 'queue_idle_ns'"),
        (
            "buffer = \"a\"\nequals_f32 = [1]\ntolerance = \"x\"",
            "'tolerance' of [[expect]] must be a number",
        ),
    ] {
        let said = bad(&format!("{SMALL}[[expect]]\n{fields}\n"));
        assert!(said.contains(words), "{fields}: {said}");
    }
    for metric in Metric::ALL.into_iter().filter(|metric| metric.queues_needed() > 0) {
        let said =
            bad(&format!("{SMALL}[[expect]]\nmetric = \"{}\"\nat_most = 5\n", metric.label()));
        let field = if metric.queues_needed() == 1 { "'queue' with" } else { "'queues' with" };
        assert!(said.contains(field), "{said}");
    }
    let text = format!(
        "{SMALL}[[expect]]\nbuffer = \"a\"\nequals = [1, \"length\"]\nunder = [\"user\"]\n"
    );
    assert_eq!(good(&text).expects.len(), 1);
}
