"""Training: the loop, its optimizer, its log, and the devices and processes it runs on."""
