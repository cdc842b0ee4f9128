//! `interpret` from its table: one thread after another over whole slices, by operation number.

use super::comparison::{Compare, Expected, word_bytes, words};
use crate::interpret::{MAX_STEPS, REGISTERS};

pub(super) fn interpret(args: &[u64], inputs: &[&[u8]]) -> Vec<Expected> {
    let (code, input, mut data) = (words(inputs[0]), words(inputs[2]), words(inputs[4]));
    let (instructions, own, n) = (args[1] as usize, args[5] as usize, args[6] as usize);
    data.truncate(own * n);
    for (thread, data) in data.chunks_exact_mut(own).enumerate() {
        let mut r = [0u32; REGISTERS];
        (r[0], r[1], r[2], r[3]) = (thread as u32, args[6] as u32, args[7] as u32, args[8] as u32);
        let mut at = 0;
        for _ in 0..MAX_STEPS {
            if at >= instructions || code[2 * at] & 0xFF == 0 {
                break;
            }
            let (head, k) = (code[2 * at], code[2 * at + 1]);
            let [d, x, y] = [1, 2, 3].map(|byte| (head >> (8 * byte) & 0xFF) as usize);
            let (a, b) = (r[x], r[y]);
            let place = a.wrapping_add(k) as usize;
            let real = f32::from_bits;
            at += 1;
            match head & 0xFF {
                1 => r[d] = k,
                2 => r[d] = a.wrapping_add(b).wrapping_add(k),
                3 => r[d] = a.wrapping_sub(b).wrapping_add(k),
                4 => r[d] = a.wrapping_mul(b).wrapping_add(k),
                5 => r[d] = a & b,
                6 => r[d] = a | b,
                7 => r[d] = a ^ b,
                8 => r[d] = a << (b.wrapping_add(k) % 32),
                9 => r[d] = a >> (b.wrapping_add(k) % 32),
                10 => r[d] = (a as f32).to_bits(),
                11 => r[d] = (real(a) + real(b)).to_bits(),
                12 => r[d] = (real(a) * real(b)).to_bits(),
                13 => r[d] = input[place],
                14 => r[d] = data[place],
                15 => data[place] = b,
                _ if a != 0 => at = k as usize,
                _ => {}
            }
        }
    }
    vec![Expected::new(4, word_bytes(&data), Compare::Exact)]
}
