//! The built-in programs that a dispatch or a draw can name, with their arguments. Readers check names
//! and kinds against this table.

use super::BufferRef;
use crate::expression::Expr;

/// A built-in program. The number is part of the interface to the engines and never changes its
/// meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Program {
    /// `y = a x + y` over floats.
    Saxpy = 1,
    /// Sums of blocks of 1,024 floats.
    Reduction = 2,
    /// Running sums within blocks of 1,024 words, and the sum of each block.
    ScanBlocks = 3,
    /// Adds the scanned block sums to the blocks.
    AddOffsets = 4,
    /// A square filter over a picture of floats.
    Convolution2d = 5,
    /// One step of bodies that attract each other.
    NBody = 6,
    /// The light on every pixel of a pre-pass.
    Shade = 7,
    /// Triangles into a render target.
    Draw = 8,
    /// An arithmetic series of words.
    FillPattern = 9,
    /// A chequered picture.
    Checkerboard = 10,
    /// A vertical gradient.
    ImageGradient = 11,
    /// Halves a picture.
    Downsample = 12,
    /// A small program in a buffer.
    Interpret = 13,
}

impl Program {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        self.signature().name
    }

    /// Its number on the engines.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Its arguments.
    pub fn signature(self) -> &'static Signature {
        SIGNATURES.iter().find(|s| s.program == self).expect("every program has a signature")
    }
}

/// What an argument must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// A buffer, with an offset.
    Buffer,
    /// A whole number.
    Integer,
    /// A float.
    Float,
}

/// One parameter of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it must be.
    pub kind: ParameterKind,
    /// Whether it must be given.
    pub required: bool,
}

/// A program and its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    /// The program.
    pub program: Program,
    /// Its name in files.
    pub name: &'static str,
    /// In the order in which the engine takes them.
    pub parameters: &'static [Parameter],
}

const fn buffer(name: &'static str) -> Parameter {
    Parameter { name, kind: ParameterKind::Buffer, required: true }
}
const fn integer(name: &'static str) -> Parameter {
    Parameter { name, kind: ParameterKind::Integer, required: true }
}
const fn float(name: &'static str) -> Parameter {
    Parameter { name, kind: ParameterKind::Float, required: true }
}
const fn optional(parameter: Parameter) -> Parameter {
    Parameter { required: false, ..parameter }
}

static SIGNATURES: [Signature; 13] = [
    Signature {
        program: Program::Saxpy,
        name: "saxpy",
        parameters: &[buffer("x"), buffer("y"), integer("n"), float("a")],
    },
    Signature {
        program: Program::Reduction,
        name: "reduction",
        parameters: &[buffer("src"), buffer("dst"), integer("n")],
    },
    Signature {
        program: Program::ScanBlocks,
        name: "scan_blocks",
        parameters: &[buffer("src"), buffer("dst"), optional(buffer("sums")), integer("n")],
    },
    Signature {
        program: Program::AddOffsets,
        name: "add_offsets",
        parameters: &[buffer("dst"), buffer("sums_scanned"), integer("n")],
    },
    Signature {
        program: Program::Convolution2d,
        name: "convolution_2d",
        parameters: &[
            buffer("src"),
            buffer("dst"),
            buffer("kernel"),
            integer("width"),
            integer("height"),
            integer("radius"),
        ],
    },
    Signature {
        program: Program::NBody,
        name: "n_body",
        parameters: &[
            buffer("pos_in"),
            buffer("pos_out"),
            buffer("vel"),
            integer("n"),
            float("dt"),
        ],
    },
    Signature {
        program: Program::Shade,
        name: "shade",
        parameters: &[
            buffer("rt1"),
            buffer("light"),
            buffer("constants"),
            optional(buffer("shadow")),
            optional(integer("shadow_size")),
            integer("width"),
            integer("height"),
        ],
    },
    Signature {
        program: Program::Draw,
        name: "draw",
        parameters: &[
            buffer("vertices"),
            integer("vertex_count"),
            optional(buffer("indices")),
            optional(integer("first_primitive")),
            integer("primitive_count"),
            optional(buffer("constants")),
            optional(buffer("target")),
            buffer("depth"),
            integer("width"),
            integer("height"),
            optional(buffer("texture")),
            optional(integer("tex_width")),
            optional(integer("tex_height")),
            optional(integer("tex_levels")),
            optional(buffer("light")),
            optional(integer("mode")),
        ],
    },
    Signature {
        program: Program::FillPattern,
        name: "fill_pattern",
        parameters: &[buffer("dst"), integer("n"), integer("first"), integer("step")],
    },
    Signature {
        program: Program::Checkerboard,
        name: "checkerboard",
        parameters: &[
            buffer("dst"),
            integer("width"),
            integer("height"),
            integer("cell"),
            integer("colour_a"),
            integer("colour_b"),
        ],
    },
    Signature {
        program: Program::ImageGradient,
        name: "image_gradient",
        parameters: &[
            buffer("dst"),
            integer("width"),
            integer("height"),
            integer("top"),
            integer("horizon"),
            integer("bottom"),
            integer("horizon_row"),
        ],
    },
    Signature {
        program: Program::Downsample,
        name: "downsample",
        parameters: &[buffer("src"), buffer("dst"), integer("width"), integer("height")],
    },
    Signature {
        program: Program::Interpret,
        name: "interpret",
        parameters: &[
            buffer("code"),
            integer("instructions"),
            optional(buffer("input")),
            optional(integer("input_words")),
            buffer("data"),
            integer("words"),
            integer("n"),
            optional(integer("a")),
            optional(integer("b")),
        ],
    },
];

/// The signature of the program of that name.
pub fn program_signature(name: &str) -> Option<&'static Signature> {
    SIGNATURES.iter().find(|s| s.name == name)
}

/// Names of all programs that a dispatch can name, or of those that a draw can name.
pub fn program_names(draws: bool) -> impl Iterator<Item = &'static str> {
    SIGNATURES.iter().filter(move |s| (s.program == Program::Draw) == draws).map(|s| s.name)
}

/// The value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// A buffer from a byte on.
    Buffer {
        /// The buffer.
        buffer: BufferRef,
        /// First byte.
        offset: Expr,
    },
    /// A whole number.
    Integer(Expr),
    /// A float.
    Float(f32),
}

/// Arguments by name, in the order of the signature. What is optional and was left out is not
/// there; for the engine it is 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Args(pub Vec<(&'static str, Arg)>);

impl Args {
    /// The argument of that name.
    pub fn get(&self, name: &str) -> Option<&Arg> {
        self.0.iter().find(|(n, _)| *n == name).map(|(_, arg)| arg)
    }

    /// The buffer argument of that name.
    pub fn buffer(&self, name: &str) -> Option<(&BufferRef, &Expr)> {
        match self.get(name) {
            Some(Arg::Buffer { buffer, offset }) => Some((buffer, offset)),
            _ => None,
        }
    }

    /// The whole-number argument of that name.
    pub fn integer(&self, name: &str) -> Option<&Expr> {
        match self.get(name) {
            Some(Arg::Integer(expr)) => Some(expr),
            _ => None,
        }
    }

    /// The float argument of that name.
    pub fn float(&self, name: &str) -> Option<f32> {
        match self.get(name) {
            Some(Arg::Float(value)) => Some(*value),
            _ => None,
        }
    }
}
