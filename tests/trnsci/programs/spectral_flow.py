"""Two solitons of the Korteweg-de Vries equation by an integrating factor and Runge-Kutta steps, with NumPy."""

import json

import numpy as np

n, dt = 256, 0.4 / 256**2
x = 2 * np.pi / n * np.arange(-n // 2, n // 2)
u = 3 * 25**2 / np.cosh(0.5 * (25 * (x + 2))) ** 2 + 3 * 16**2 / np.cosh(0.5 * (16 * (x + 1))) ** 2
v = np.fft.fft(u)
k = np.concatenate([np.arange(0, n // 2), [0], np.arange(-n // 2 + 1, 0)])
half = np.exp(dt * 1j * k**3 / 2)
g = -0.5j * dt * k
for _ in range(150):
    a = g * np.fft.fft(np.real(np.fft.ifft(v)) ** 2)
    b = g * np.fft.fft(np.real(np.fft.ifft(half * (v + a / 2))) ** 2)
    c = g * np.fft.fft(np.real(np.fft.ifft(half * v + b / 2)) ** 2)
    d = g * np.fft.fft(np.real(np.fft.ifft(half**2 * v + half * c)) ** 2)
    v = half**2 * v + (half**2 * a + 2 * half * (b + c) + d) / 6
u = np.real(np.fft.ifft(v))
print(json.dumps([float(u.max()), float(np.linalg.norm(u)), int(u.argmax())]))
