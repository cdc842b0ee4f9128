//! Programs as types with named arguments, for a list that records them: `Saxpy { x, y, n, a }`.
//!
//! `B` is the type that names a place in a buffer. The fields are the arguments of the signature,
//! in its order. A test compares each type with its signature.

use super::atomics;
use super::signature::Signature;
use super::{
    checkerboard, convolution_2d, downsample, draw, fill_pattern, image_gradient, interpret,
    n_body, prefix_sum, reduction, saxpy, shade,
};
use tidegate_gpu_abi::program::{ComputeProgram, DrawProgram, Program, Shader, Value};

macro_rules! typed {
    (@value $value:expr, buffer) => { Value::Buffer($value) };
    (@value $value:expr, optional) => { $value.map_or(Value::Omitted, Value::Buffer) };
    (@value $value:expr, u32) => { Value::U32($value) };
    (@value $value:expr, f32) => { Value::F32($value) };
    ($($(#[$doc:meta])* $name:ident: $kind:ident = $signature:path {
        $($field:ident: $type:ty = $argument:ident),*
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $name<B> {
            $(
                #[doc = concat!("The argument `", stringify!($field), "`.")]
                pub $field: $type,
            )*
        }

        impl $name<()> {
            /// The description of the program, from which a pipeline state is created.
            pub const SHADER: Shader = $signature.shader();
        }

        impl<B: Copy> $name<B> {
            /// Returns the thread groups that cover its work.
            pub fn groups(&self) -> [u32; 3] {
                Program::groups(self)
            }
        }

        impl<B: Copy> Program for $name<B> {
            type Buffer = B;

            fn shader(&self) -> Shader {
                $signature.shader()
            }

            fn values(&self) -> Vec<Value<B>> {
                vec![$(typed!(@value self.$field, $argument)),*]
            }

            fn groups(&self) -> [u32; 3] {
                groups_of(&$signature, &self.values())
            }
        }

        impl<B: Copy> $kind for $name<B> {}
    )*};
}

/// The groups depend on the numbers only, so the buffers get any addresses that are far apart.
fn groups_of<B>(signature: &'static Signature, values: &[Value<B>]) -> [u32; 3] {
    let word = |(at, value): (u64, &Value<B>)| match value {
        Value::Buffer(_) => (at + 1) << 40,
        Value::Omitted => 0,
        Value::U32(number) => u64::from(*number),
        Value::F32(number) => u64::from(number.to_bits()),
    };
    signature.groups_for(&(0..).zip(values).map(word).collect::<Vec<u64>>())
}

typed! {
    /// `y[i] = a * x[i] + y[i]` over `n` floats.
    Saxpy: ComputeProgram = saxpy::SIGNATURE {
        x: B = buffer, y: B = buffer, n: u32 = u32, a: f32 = f32
    }
    /// Sums of the blocks of 1,024 of `n` floats; see [`reduction`].
    Reduction: ComputeProgram = reduction::SIGNATURE {
        src: B = buffer, dst: B = buffer, n: u32 = u32
    }
    /// Inclusive prefix sums within blocks of 1,024 numbers, and the blocks' sums.
    ScanBlocks: ComputeProgram = prefix_sum::SCAN_BLOCKS {
        src: B = buffer, dst: B = buffer, sums: Option<B> = optional, n: u32 = u32
    }
    /// Adds the scanned sums of the blocks to the blocks.
    AddOffsets: ComputeProgram = prefix_sum::ADD_OFFSETS {
        dst: B = buffer, sums_scanned: B = buffer, n: u32 = u32
    }
    /// A square filter over an image, edges clamped.
    Convolution2d: ComputeProgram = convolution_2d::SIGNATURE {
        src: B = buffer, dst: B = buffer, kernel: B = buffer, width: u32 = u32,
        height: u32 = u32, radius: u32 = u32
    }
    /// One step of gravity among `n` bodies; see [`n_body`].
    NBody: ComputeProgram = n_body::SIGNATURE {
        pos_in: B = buffer, pos_out: B = buffer, vel: B = buffer, n: u32 = u32, dt: f32 = f32
    }
    /// Light of every pixel from the pre-pass buffer; see [`shade`].
    Shade: ComputeProgram = shade::SIGNATURE {
        rt1: B = buffer, light: B = buffer, constants: B = buffer, shadow: Option<B> = optional,
        shadow_size: u32 = u32, width: u32 = u32, height: u32 = u32
    }
    /// `dst[i] = first + i * step`, wrapping, over `n` numbers.
    FillPattern: ComputeProgram = fill_pattern::SIGNATURE {
        dst: B = buffer, n: u32 = u32, first: u32 = u32, step: u32 = u32
    }
    /// A chequered image.
    Checkerboard: ComputeProgram = checkerboard::SIGNATURE {
        dst: B = buffer, width: u32 = u32, height: u32 = u32, cell: u32 = u32,
        colour_a: u32 = u32, colour_b: u32 = u32
    }
    /// A vertical gradient with a horizon.
    ImageGradient: ComputeProgram = image_gradient::SIGNATURE {
        dst: B = buffer, width: u32 = u32, height: u32 = u32, top: u32 = u32, horizon: u32 = u32,
        bottom: u32 = u32, horizon_row: u32 = u32
    }
    /// Halves an image.
    Downsample: ComputeProgram = downsample::SIGNATURE {
        src: B = buffer, dst: B = buffer, width: u32 = u32, height: u32 = u32
    }
    /// A program in a buffer, which `n` threads interpret; see [`interpret`].
    Interpret: ComputeProgram = interpret::SIGNATURE {
        code: B = buffer, instructions: u32 = u32, input: Option<B> = optional,
        input_words: u32 = u32, data: B = buffer, words: u32 = u32, n: u32 = u32, a: u32 = u32,
        b: u32 = u32
    }
    /// Each of `n` threads adds `amount` to the 64-bit `counter`; see [`atomics`].
    Count: ComputeProgram = atomics::COUNT {
        counter: B = buffer, tickets: Option<B> = optional, n: u32 = u32, amount: u32 = u32
    }
    /// Each of `n` elements of `src` adds 1 to its bin; see [`atomics`].
    Histogram: ComputeProgram = atomics::HISTOGRAM {
        src: B = buffer, bins: B = buffer, n: u32 = u32, bin_count: u32 = u32
    }
    /// `n` atomic operations from a buffer; see [`atomics`].
    AtomicSteps: ComputeProgram = atomics::ATOMIC_STEPS {
        words: B = buffer, steps: B = buffer, results: Option<B> = optional, n: u32 = u32,
        word_count: u32 = u32
    }
    /// Triangles into a render target; see [`draw`].
    Draw: DrawProgram = draw::SIGNATURE {
        vertices: B = buffer, vertex_count: u32 = u32, indices: Option<B> = optional,
        first_primitive: u32 = u32, primitive_count: u32 = u32, constants: Option<B> = optional,
        target: Option<B> = optional, depth: B = buffer, width: u32 = u32, height: u32 = u32,
        texture: Option<B> = optional, tex_width: u32 = u32, tex_height: u32 = u32,
        tex_levels: u32 = u32, light: Option<B> = optional, mode: u32 = u32
    }
}

impl<B> Draw<B> {
    /// Returns a draw of triangles, three vertices each, without indices, texture and light. It has
    /// no target yet, and its mode is [`draw::COLOUR`].
    pub fn triangles(vertices: B, vertex_count: u32, depth: B, [width, height]: [u32; 2]) -> Self {
        Draw {
            vertices,
            vertex_count,
            indices: None,
            first_primitive: 0,
            primitive_count: vertex_count / 3,
            constants: None,
            target: None,
            depth,
            width,
            height,
            texture: None,
            tex_width: 0,
            tex_height: 0,
            tex_levels: 0,
            light: None,
            mode: draw::COLOUR,
        }
    }

    /// Sets the render target.
    #[must_use]
    pub fn target(self, target: B) -> Self {
        Draw { target: Some(target), ..self }
    }

    /// Sets a texture of one mip.
    #[must_use]
    pub fn textured(self, texture: B, [tex_width, tex_height]: [u32; 2]) -> Self {
        Draw { texture: Some(texture), tex_width, tex_height, tex_levels: 1, ..self }
    }

    /// Sets the light of each pixel, as [`Shade`] leaves it.
    #[must_use]
    pub fn lit(self, light: B) -> Self {
        Draw { light: Some(light), ..self }
    }

    /// Sets the mode, such as [`draw::PRE_PASS`].
    #[must_use]
    pub fn mode(self, mode: u32) -> Self {
        Draw { mode, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_gpu_abi::program::ArgumentKind;

    fn fits<P: Program<Buffer = u64> + std::fmt::Debug>(program: P) {
        let (shader, values) = (program.shader(), program.values());
        let text = format!("{program:?}");
        let fields: Vec<&str> =
            text.split([' ', '{']).filter_map(|w| w.strip_suffix(':')).collect();
        let names: Vec<&str> = shader.arguments.iter().map(|argument| argument.name).collect();
        assert_eq!(fields, names, "{}", shader.name);
        assert_eq!(values.len(), shader.arguments.len(), "{}", shader.name);
        for (argument, value) in shader.arguments.iter().zip(&values) {
            let same = match (argument.kind, value) {
                (ArgumentKind::Buffer { .. }, Value::Buffer(_))
                | (ArgumentKind::U32, Value::U32(_))
                | (ArgumentKind::F32, Value::F32(_)) => true,
                (ArgumentKind::Buffer { .. }, Value::Omitted) => argument.optional,
                _ => false,
            };
            assert!(same, "argument '{}' of {}", argument.name, shader.name);
        }
    }

    #[test]
    fn the_types_are_the_signatures() {
        let (x, y, dst, src, n) = (1, 2, 3, 4, 5);
        fits(Saxpy { x, y, n, a: 0.5 });
        fits(Reduction { src, dst, n });
        fits(ScanBlocks { src, dst, sums: None, n });
        fits(AddOffsets { dst, sums_scanned: 1, n });
        fits(Convolution2d { src, dst, kernel: 1, width: 1, height: 1, radius: 1 });
        fits(NBody { pos_in: 1, pos_out: 2, vel: 3, n, dt: 1.0 });
        let (width, height) = (1, 1);
        let (constants, shadow) = (1, Some(2));
        fits(Shade { rt1: 1, light: 2, constants, shadow, shadow_size: 1, width, height });
        fits(FillPattern { dst, n, first: 1, step: 1 });
        fits(Checkerboard { dst, width, height, cell: 1, colour_a: 1, colour_b: 1 });
        let (top, horizon, bottom) = (1, 2, 3);
        fits(ImageGradient { dst, width, height, top, horizon, bottom, horizon_row: 1 });
        fits(Downsample { src, dst, width, height });
        let (input, input_words) = (None, 0);
        let (code, data) = (1, 2);
        fits(Interpret {
            code,
            instructions: 1,
            input,
            input_words,
            data,
            words: 1,
            n,
            a: 0,
            b: 0,
        });
        fits(Count { counter: 1, tickets: Some(2), n, amount: 1 });
        fits(Histogram { src, bins: 1, n, bin_count: 1 });
        fits(AtomicSteps { words: 1, steps: 2, results: None, n, word_count: 1 });
        fits(Draw {
            vertices: 1,
            vertex_count: 3,
            indices: None,
            first_primitive: 0,
            primitive_count: 1,
            constants: None,
            target: None,
            depth: 2,
            width,
            height,
            texture: None,
            tex_width: 0,
            tex_height: 0,
            tex_levels: 0,
            light: None,
            mode: 0,
        });
    }

    #[test]
    fn groups_cover_the_work() {
        let saxpy = |n| Saxpy { x: (), y: (), n, a: 1.0 }.groups();
        assert_eq!([1, 1_024, 1_025].map(saxpy), [[1, 1, 1], [1, 1, 1], [2, 1, 1]]);
        assert_eq!(Histogram { src: (), bins: (), n: 5, bin_count: 0 }.groups(), [0; 3]);
        const { assert!(Draw::SHADER.draws && !Saxpy::SHADER.draws) };
        assert_eq!((Count::SHADER.number, Count::SHADER.name), (14, "count"));
    }
}
