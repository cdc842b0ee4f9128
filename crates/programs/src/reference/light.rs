//! Reference of `shade`: every pixel from its whole buffers, in double precision.

use super::comparison::{Compare, Expected, float_bytes, floats};
use crate::shade::{OCCLUSION_REACH, OCCLUSION_SAMPLES};

type Vector = [f64; 3];

struct View {
    constants: Vec<f64>,
    rt1: Vec<f32>,
    shadow: Vec<f32>,
    shadow_size: i64,
    width: i64,
    height: i64,
}

pub(super) fn shade(args: &[u64], inputs: &[&[u8]]) -> Vec<Expected> {
    let view = View {
        constants: floats(inputs[2]).into_iter().map(f64::from).collect(),
        rt1: floats(inputs[0]),
        shadow: if args[3] == 0 { Vec::new() } else { floats(inputs[3]) },
        shadow_size: args[4] as i64,
        width: args[5] as i64,
        height: args[6] as i64,
    };
    let mut out = Vec::new();
    for y in 0..view.height {
        for x in 0..view.width {
            out.extend(view.light(x, y).map(|part| part as f32));
        }
    }
    let outliers = 4 * (args[5] * args[6]) as usize * 15 / 1000 + 16;
    let compare = Compare::Float { absolute: 0.01, relative: 0.01, outliers };
    vec![Expected::new(1, float_bytes(&out), compare)]
}

impl View {
    fn vector(&self, first: usize) -> Vector {
        [self.constants[first], self.constants[first + 1], self.constants[first + 2]]
    }

    /// Returns position, normal and distance of the surface at a pixel.
    fn point(&self, x: i64, y: i64) -> Option<(Vector, Vector, f64)> {
        let at = 4 * (y * self.width + x) as usize;
        let [nx, ny, nz, distance] = [0, 1, 2, 3].map(|part| f64::from(self.rt1[at + part]));
        if !(distance > 0.0 && distance.is_finite()) {
            return None;
        }
        let across = (x as f64 + 0.5) / self.width as f64 * 2.0 - 1.0;
        let up = 1.0 - (y as f64 + 0.5) / self.height as f64 * 2.0;
        let (eye, forward) = (self.vector(0), self.vector(12));
        let (right, top) = (self.vector(4), self.vector(8));
        let place = |i: usize| eye[i] + distance * (forward[i] + across * right[i] + up * top[i]);
        Some(([place(0), place(1), place(2)], [nx, ny, nz], distance))
    }

    fn light(&self, x: i64, y: i64) -> [f64; 4] {
        let Some((place, normal, distance)) = self.point(x, y) else { return [0.0; 4] };
        let open = self.openness(x, y, place, normal, distance);
        let to_eye = unit(minus(self.vector(0), place));
        let (sky, ground, above) = (self.vector(24), self.vector(28), (1.0 + normal[1]) / 2.0);
        let mut out = [0.0; 4];
        for i in 0..3 {
            out[i] = open * (sky[i] * above + ground[i] * (1.0 - above));
        }
        let (to_sun, sun) = (self.vector(16), self.vector(20));
        if dot(normal, to_sun) > 0.0 {
            let through = self.sun_visible(place, normal);
            for i in 0..3 {
                out[i] += sun[i] * dot(normal, to_sun) * through;
            }
            out[3] += through * gloss(normal, to_sun, to_eye);
        }
        for lamp in 0..self.constants[23] as usize {
            let first = 48 + 8 * lamp;
            let (position, radius, colour) =
                (self.vector(first), self.constants[first + 3], self.vector(first + 4));
            let to_lamp = minus(position, place);
            let (ratio, facing) =
                (dot(to_lamp, to_lamp) / radius.powi(2), dot(normal, unit(to_lamp)));
            if ratio < 1.0 && facing > 0.0 {
                for i in 0..3 {
                    out[i] += colour[i] * facing * (1.0 - ratio).powi(2) * open;
                }
                out[3] += 0.5 * (1.0 - ratio).powi(2) * gloss(normal, unit(to_lamp), to_eye);
            }
        }
        out
    }

    fn openness(&self, x: i64, y: i64, place: Vector, normal: Vector, distance: f64) -> f64 {
        let (radius, strength) = (self.constants[27], self.constants[31]);
        if !(strength > 0.0 && radius > 0.0) {
            return 1.0;
        }
        let up = self.vector(8);
        let reach = radius * self.height as f64 / 2.0 / dot(up, up).sqrt() / distance;
        let reach = reach.min(OCCLUSION_REACH as f64);
        // The pixels of a 2 by 2 square rotate the spiral by 0, 90, 45 and 135 degrees.
        let degrees = [[0.0f64, 90.0], [45.0, 135.0]][(y % 2) as usize][(x % 2) as usize];
        let turn = degrees.to_radians();
        let golden = std::f64::consts::PI * (3.0 - 5.0f64.sqrt());
        let mut hidden = 0.0;
        for sample in 0..OCCLUSION_SAMPLES {
            let angle = sample as f64 * golden + turn;
            let length = reach * ((sample as f64 + 0.5) / OCCLUSION_SAMPLES as f64).sqrt();
            let other_x = x + (angle.cos() * length + 0.5).floor() as i64;
            let other_y = y + (angle.sin() * length + 0.5).floor() as i64;
            if !(0..self.width).contains(&other_x) || !(0..self.height).contains(&other_y) {
                continue;
            }
            let Some((other, _, _)) = self.point(other_x, other_y) else { continue };
            let to_other = minus(other, place);
            let squared = dot(to_other, to_other);
            if squared > 0.0 && squared < radius * radius {
                let rise = dot(normal, to_other) / squared.sqrt() - 0.08;
                hidden += rise.max(0.0) * (1.0 - squared / (radius * radius));
            }
        }
        (1.0 - strength * hidden / OCCLUSION_SAMPLES as f64).max(0.0)
    }

    fn sun_visible(&self, place: Vector, normal: Vector) -> f64 {
        if self.shadow.is_empty() {
            return 1.0;
        }
        let from: Vec<f64> = (0..3).map(|i| place[i] + 0.04 * normal[i]).collect();
        let row = |r: usize| {
            let m = &self.constants[32 + 4 * r..36 + 4 * r];
            m[0] * from[0] + m[1] * from[1] + m[2] * from[2] + m[3]
        };
        let (size, w) = (self.shadow_size as f64, row(3));
        let (x, y) = ((row(0) / w + 1.0) / 2.0 * size - 0.5, (1.0 - row(1) / w) / 2.0 * size - 0.5);
        let depth = row(2) / w;
        if !(0.0..size).contains(&x) || !(0.0..size).contains(&y) || !(0.0..1.0).contains(&depth) {
            return 1.0;
        }
        // The lit share of a window, 5 texels wide, around the place. A texel extends half its
        // width from its centre.
        let overlap = |texel: i64, at: f64| {
            let (low, high) =
                ((at - 2.5).max(texel as f64 - 0.5), (at + 2.5).min(texel as f64 + 0.5));
            (high - low).max(0.0)
        };
        let mut lit = 0.0;
        for texel_y in y.floor() as i64 - 3..=y.floor() as i64 + 4 {
            for texel_x in x.floor() as i64 - 3..=x.floor() as i64 + 4 {
                let range = 0..self.shadow_size;
                let inside = range.contains(&texel_x) && range.contains(&texel_y);
                let stored = if inside {
                    self.shadow[(texel_y * self.shadow_size + texel_x) as usize]
                } else {
                    1.0
                };
                if f64::from(stored) >= depth {
                    lit += overlap(texel_x, x) * overlap(texel_y, y);
                }
            }
        }
        lit / 25.0
    }
}

fn gloss(normal: Vector, to_light: Vector, to_eye: Vector) -> f64 {
    let half = unit([0, 1, 2].map(|i| to_light[i] + to_eye[i]));
    dot(normal, half).max(0.0).powi(64)
}

fn minus(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn unit(a: Vector) -> Vector {
    let length = dot(a, a).sqrt();
    if length > 0.0 { a.map(|part| part / length) } else { a }
}
