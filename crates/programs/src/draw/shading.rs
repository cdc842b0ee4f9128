//! Pixel stage: from interpolated values to the target's content.

use super::raster::{Footprint, Pixel};
use crate::camera::normalised;
use crate::layout::{DrawConstants, encode_rgb};

/// The constants that pixels need.
pub(super) struct Shading {
    tint: [f32; 3],
    specular: f32,
    fog: [f32; 3],
    fog_distance: f32,
    uv_scale: f32,
    exposure: f32,
}

impl Shading {
    pub(super) fn new(constants: &DrawConstants) -> Self {
        Self {
            tint: constants.tint,
            specular: constants.specular,
            fog: constants.fog,
            fog_distance: constants.fog_distance,
            uv_scale: constants.uv_scale,
            exposure: constants.exposure,
        }
    }

    /// Scales texture coordinates by `uv_scale`.
    pub(super) fn footprint(&self, footprint: Footprint) -> Footprint {
        let scaled = |uv: [f32; 2]| uv.map(|coordinate| coordinate * self.uv_scale);
        Footprint {
            uv: scaled(footprint.uv),
            right: scaled(footprint.right),
            below: scaled(footprint.below),
        }
    }

    /// RGBA8 of a pixel. `light` is what `shade` left: red, green, blue and highlight. Without it
    /// the surface shows its own colour.
    pub(super) fn colour(&self, pixel: &Pixel, texel: [f32; 3], light: Option<[f32; 4]>) -> u32 {
        let own: [f32; 3] = std::array::from_fn(|channel| {
            pixel.attributes[5 + channel] * self.tint[channel] * texel[channel]
        });
        let lit = match light {
            None => own,
            Some(light) => std::array::from_fn(|channel| {
                own[channel] * light[channel] + self.specular * light[3]
            }),
        };
        let shown = if self.exposure > 0.0 {
            lit.map(|channel| tone(channel * self.exposure))
        } else {
            lit
        };
        let haze = self.haze(pixel.w);
        encode_rgb(std::array::from_fn(|channel| {
            shown[channel] + (self.fog[channel] - shown[channel]) * haze
        }))
    }

    /// Returns world normal and distance.
    pub(super) fn geometry(&self, pixel: &Pixel) -> [f32; 4] {
        let [x, y, z] = normalised([pixel.attributes[0], pixel.attributes[1], pixel.attributes[2]]);
        [x, y, z, pixel.w]
    }

    /// Returns the share of fog: almost 0 nearby, half at the fog distance, 1 far away.
    fn haze(&self, distance: f32) -> f32 {
        if self.fog_distance <= 0.0 {
            return 0.0;
        }
        let ratio = distance / self.fog_distance;
        let fourth = ratio * ratio * ratio * ratio;
        if fourth.is_finite() { fourth / (1.0 + fourth) } else { 1.0 }
    }
}

/// Tone curve: Narkowicz's fit to the film curve of the Academy Color Encoding System.
fn tone(light: f32) -> f32 {
    let light = light.clamp(0.0, 1e6);
    (light * (2.51 * light + 0.03)) / (light * (2.43 * light + 0.59) + 0.14)
}
