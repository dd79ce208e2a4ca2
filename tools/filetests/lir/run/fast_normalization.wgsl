// routine normalized, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 2>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;
var<workgroup> l0_: array<f32, 256>;
var<workgroup> l2_: array<f32, 64>;
var<workgroup> l3_: array<f32, 16>;
var<workgroup> l4_: array<f32, 4>;
var<workgroup> l5_: array<f32, 1>;
var<workgroup> l6_: array<f32, 256>;
var<workgroup> l8_: array<f32, 64>;
var<workgroup> l9_: array<f32, 16>;
var<workgroup> l10_: array<f32, 4>;
var<workgroup> l11_: array<f32, 1>;

@compute @workgroup_size(256, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l1_: f32;
    var l7_: f32;
    var i9_next: i32;
    var bits: u32 = 2139095040u;
    var bits_1: u32 = 4286578688u;
    var bits_2: u32 = 2143289344u;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let _e9 = table[0u];
    let at_3_ = _e9.w;
    let _e13 = table[1u];
    let at_4_ = _e13.x;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(group);
    l1_ = 0f;
    l7_ = 0f;
    let _e34 = u32(i0_);
    let _e38 = slab_0_[(at_0_ + _e34)];
    let l12_ = bitcast<f32>(_e38);
    let _e40 = bitcast<i32>(thread);
    l1_ = 0f;
    let _e41 = l1_;
    let _e43 = (i0_ * 300i);
    let _e44 = (_e43 + _e40);
    let _e45 = u32(_e44);
    let _e48 = slab_0_[(at_1_ + _e45)];
    l1_ = (_e41 + bitcast<f32>(_e48));
    let _e52 = (thread < 44u);
    if _e52 {
        let _e53 = l1_;
        let _e59 = slab_0_[(at_1_ + u32((_e44 + 256i)))];
        l1_ = (_e53 + bitcast<f32>(_e59));
    }
    let _e62 = l1_;
    l0_[_e40] = _e62;
    workgroupBarrier();
    let _e66 = (thread < 64u);
    if _e66 {
        let _e67 = l0_[_e40];
        let _e71 = l0_[(_e40 + 128i)];
        let _e76 = l0_[(_e40 + 64i)];
        let _e80 = l0_[(_e40 + 192i)];
        l2_[_e40] = ((_e67 + _e71) + (_e76 + _e80));
    }
    workgroupBarrier();
    let _e86 = (thread < 16u);
    if _e86 {
        let _e88 = l2_[_e40];
        let _e92 = l2_[(_e40 + 32i)];
        let _e97 = l2_[(_e40 + 16i)];
        let _e101 = l2_[(_e40 + 48i)];
        l3_[_e40] = ((_e88 + _e92) + (_e97 + _e101));
    }
    workgroupBarrier();
    let _e106 = (thread < 4u);
    if _e106 {
        let _e108 = l3_[_e40];
        let _e112 = l3_[(_e40 + 8i)];
        let _e117 = l3_[(_e40 + 4i)];
        let _e121 = l3_[(_e40 + 12i)];
        l4_[_e40] = ((_e108 + _e112) + (_e117 + _e121));
    }
    workgroupBarrier();
    let _e126 = (thread < 1u);
    if _e126 {
        let _e129 = l4_[0i];
        let _e132 = l4_[2i];
        let _e136 = l4_[1i];
        let _e139 = l4_[3i];
        l5_[0i] = ((_e129 + _e132) + (_e136 + _e139));
    }
    workgroupBarrier();
    let _e145 = l5_[0i];
    let l12_1 = (l12_ + _e145);
    storageBarrier();
    if _e126 {
        slab_0_[(at_0_ + _e34)] = bitcast<u32>(l12_1);
    }
    storageBarrier();
    let _e148 = slab_0_[(at_0_ + _e34)];
    let l13_ = (bitcast<f32>(_e148) / 300f);
    i9_next = 0i;
    loop {
        let i9_ = i9_next;
        if (i9_ < 300i) {
        } else {
            break;
        }
        let _e159 = slab_0_[(at_1_ + u32((_e43 + i9_)))];
        let l14_ = (bitcast<f32>(_e159) - l13_);
        if _e126 {
            let _e164 = slab_0_[(at_2_ + _e34)];
            slab_0_[(at_2_ + _e34)] = bitcast<u32>(fma(l14_, l14_, bitcast<f32>(_e164)));
        }
        storageBarrier();
        continuing {
            let _e168 = i9_next;
            i9_next = (_e168 + 1i);
        }
    }
    let _e172 = slab_0_[(at_2_ + _e34)];
    let _e177 = sqrt(((bitcast<f32>(_e172) / 300f) + 0.00001f));
    let _e179 = bitcast<u32>(1f);
    let _e182 = (_e179 & 2147483647u);
    let _e187 = bits;
    let _e191 = bits_1;
    let _e193 = bitcast<u32>(_e177);
    let _e199 = bits_2;
    let l15_ = select((1f / _e177), select(bitcast<f32>(_e199), select(bitcast<f32>(_e191), bitcast<f32>(_e187), ((_e179 ^ _e193) <= 2147483647u)), ((_e182 != 0u) & (_e182 <= 2139095040u))), ((_e193 & 2147483647u) == 0u));
    let _e206 = slab_0_[(at_1_ + _e45)];
    slab_0_[(at_3_ + _e45)] = bitcast<u32>(((bitcast<f32>(_e206) - l13_) * l15_));
    storageBarrier();
    if _e52 {
        let _e214 = u32((_e44 + 256i));
        let _e217 = slab_0_[(at_1_ + _e214)];
        slab_0_[(at_3_ + _e214)] = bitcast<u32>(((bitcast<f32>(_e217) - l13_) * l15_));
    }
    storageBarrier();
    let _e226 = slab_0_[(at_4_ + _e34)];
    let l16_ = bitcast<f32>(_e226);
    l7_ = 0f;
    let _e228 = l7_;
    let _e229 = slab_0_[(at_3_ + _e45)];
    l7_ = (_e228 + bitcast<f32>(_e229));
    storageBarrier();
    if _e52 {
        let _e232 = l7_;
        let _e237 = slab_0_[(at_3_ + u32((_e44 + 256i)))];
        l7_ = (_e232 + bitcast<f32>(_e237));
    }
    storageBarrier();
    let _e240 = l7_;
    l6_[_e40] = _e240;
    workgroupBarrier();
    if _e66 {
        let _e243 = l6_[_e40];
        let _e246 = l6_[(_e40 + 128i)];
        let _e250 = l6_[(_e40 + 64i)];
        let _e253 = l6_[(_e40 + 192i)];
        l8_[_e40] = ((_e243 + _e246) + (_e250 + _e253));
    }
    workgroupBarrier();
    if _e86 {
        let _e259 = l8_[_e40];
        let _e262 = l8_[(_e40 + 32i)];
        let _e266 = l8_[(_e40 + 16i)];
        let _e269 = l8_[(_e40 + 48i)];
        l9_[_e40] = ((_e259 + _e262) + (_e266 + _e269));
    }
    workgroupBarrier();
    if _e106 {
        let _e275 = l9_[_e40];
        let _e278 = l9_[(_e40 + 8i)];
        let _e282 = l9_[(_e40 + 4i)];
        let _e285 = l9_[(_e40 + 12i)];
        l10_[_e40] = ((_e275 + _e278) + (_e282 + _e285));
    }
    workgroupBarrier();
    if _e126 {
        let _e291 = l10_[0i];
        let _e293 = l10_[2i];
        let _e296 = l10_[1i];
        let _e298 = l10_[3i];
        l11_[0i] = ((_e291 + _e293) + (_e296 + _e298));
    }
    workgroupBarrier();
    let _e304 = l11_[0i];
    let l16_1 = (l16_ + _e304);
    if _e126 {
        slab_0_[(at_4_ + _e34)] = bitcast<u32>(l16_1);
    }
}
